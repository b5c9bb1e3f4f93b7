-- Slurm's jobs and ranks.
SELECT slurm_job, slurm_step, rank, SUM(microjoules) AS uj, SUM(cpu_ns) AS on_cpu_ns
FROM energy WHERE slurm_job IS NOT NULL OR rank IS NOT NULL
GROUP BY slurm_job, slurm_step, rank ORDER BY 1, 2, 3
