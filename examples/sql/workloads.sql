-- Pods with their Kubernetes namespaces, containers, units and jobs, and the programs in them.
SELECT namespace, pod_uid, container_id, unit, slurm_job, program, SUM(microjoules) AS uj, SUM(cpu_ns) AS on_cpu_ns,
       COUNT(DISTINCT host) AS hosts
FROM energy GROUP BY namespace, pod_uid, container_id, unit, slurm_job, program ORDER BY 7 DESC, 6, 1, 2, 3, 4, 5
