-- Microjoules of a unit of work (`--work`) on each machine, of the windows in which its number was there all the time. Of all programs: put
-- WHERE unit = 'vllm.service', or what a workload has else, behind `FROM energy`.
SELECT w.host, w.work, ROUND(SUM(w.units), 6) AS units, SUM(e.uj) AS uj,
       SUM(e.uj) / NULLIF(SUM(w.units), 0) AS uj_per_unit
FROM work AS w
JOIN (SELECT host, window_start, SUM(microjoules) AS uj FROM energy GROUP BY host, window_start) AS e
  ON w.host = e.host AND w.window_start = e.window_start
GROUP BY w.host, w.work ORDER BY 1, 2
