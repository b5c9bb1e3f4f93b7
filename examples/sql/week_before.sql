-- What functions used in the last seven days, and in the seven before: since the latest window that is there.
SELECT s.function,
       SUM(CASE WHEN e.window_start > t.latest - INTERVAL '7' DAY THEN e.microjoules ELSE 0 END) AS this_week_uj,
       SUM(CASE WHEN e.window_start > t.latest - INTERVAL '7' DAY THEN 0 ELSE e.microjoules END) AS week_before_uj
FROM energy AS e CROSS JOIN (SELECT MAX(window_start) AS latest FROM energy) AS t
LEFT JOIN stacks AS s ON e.stack_id = s.stack_id
WHERE e.window_start > t.latest - INTERVAL '14' DAY
GROUP BY s.function ORDER BY 2 DESC, 3 DESC, 1
