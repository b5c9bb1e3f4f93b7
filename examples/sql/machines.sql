-- Where each machine's energy went, and what the tool itself took and lost.
SELECT host, class, SUM(measured_uj) AS measured_uj, SUM(target_uj) AS target_uj, SUM(other_uj) AS other_uj,
       SUM(idle_uj) AS idle_uj, SUM(uncore_uj) AS uncore_uj, SUM(residual_uj) AS residual_uj,
       SUM(unattributed_uj) AS unattributed_uj, SUM(tracer_cpu_ns) AS tracer_ns, SUM(lost_events) AS lost
FROM ledger GROUP BY host, class ORDER BY 1, 2
