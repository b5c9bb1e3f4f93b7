-- Where each machine's energy went, what the tool itself took and lost, and how many windows a spool removed.
SELECT host, class, SUM(measured_uj) AS measured_uj, SUM(target_uj) AS target_uj, SUM(other_uj) AS other_uj,
       SUM(idle_uj) AS idle_uj, SUM(uncore_uj) AS uncore_uj, SUM(residual_uj) AS residual_uj,
       SUM(unattributed_uj) AS unattributed_uj, SUM(tracer_cpu_ns) AS tracer_ns, SUM(lost_events) AS lost,
       SUM(removed_windows) AS removed_windows
FROM ledger GROUP BY host, class ORDER BY 1, 2
