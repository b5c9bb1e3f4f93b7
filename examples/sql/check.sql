-- Whether all is there: for each machine and class, what programs were charged with by both tables, and what of the counters is missing.
-- Both differences are 0, or files are missing or there twice.
SELECT l.host, l.class, l.measured AS measured_uj, l.target AS target_uj,
       COALESCE(l.target, 0) - COALESCE(e.uj, 0) AS rows_missing_uj, COALESCE(l.measured - l.parts, 0) AS ledger_missing_uj
FROM (SELECT host, class, SUM(measured_uj) AS measured, SUM(target_uj) AS target,
             SUM(target_uj + other_uj + idle_uj + uncore_uj + residual_uj + unattributed_uj) AS parts
      FROM ledger GROUP BY host, class) AS l
LEFT JOIN (SELECT host, class, SUM(microjoules) AS uj FROM energy GROUP BY host, class) AS e
       ON l.host = e.host AND l.class = e.class
ORDER BY 1, 2
