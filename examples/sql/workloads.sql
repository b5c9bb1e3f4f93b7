-- Pods, containers, units and jobs, and the programs in them.
SELECT pod_uid, container_id, unit, slurm_job, program, SUM(microjoules) AS uj, SUM(cpu_ns) AS on_cpu_ns,
       COUNT(DISTINCT host) AS hosts
FROM energy GROUP BY pod_uid, container_id, unit, slurm_job, program ORDER BY 6 DESC, 5, 1, 2, 3, 4
