-- The functions in which most energy was used.
SELECT s.function, SUM(e.microjoules) AS uj, SUM(e.cpu_ns) AS on_cpu_ns
FROM energy AS e LEFT JOIN stacks AS s ON e.stack_id = s.stack_id
GROUP BY s.function ORDER BY 2 DESC, 1
