-- What functions used in the last seven days, and in the seven before: since the latest window that is there.
SELECT s.function, SUM(e.this_week_uj) AS this_week_uj, SUM(e.week_before_uj) AS week_before_uj
FROM (SELECT stack_id, SUM(CASE WHEN is_new THEN microjoules ELSE 0 END) AS this_week_uj,
             SUM(CASE WHEN is_new THEN 0 ELSE microjoules END) AS week_before_uj
      FROM (SELECT stack_id, microjoules,
                   window_start > (SELECT MAX(window_start) - INTERVAL '7' DAY FROM energy) AS is_new
            FROM energy
            WHERE window_start > (SELECT MAX(window_start) - INTERVAL '14' DAY FROM energy)) AS w
      GROUP BY stack_id) AS e
LEFT JOIN stacks AS s ON e.stack_id = s.stack_id
GROUP BY s.function ORDER BY 2 DESC, 3 DESC, 1
