-- Functions with all that they call. These do not add up: a joule is in every function of its stack.
SELECT f.frame, SUM(e.uj) AS uj
FROM (SELECT stack_id, SUM(microjoules) AS uj FROM energy GROUP BY stack_id) AS e
JOIN frames AS f ON e.stack_id = f.stack_id
GROUP BY f.frame ORDER BY 2 DESC, 1
