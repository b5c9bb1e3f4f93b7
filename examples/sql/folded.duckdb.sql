-- A workload's stacks with their microjoules, program first, as flamegraph.pl, inferno and speedscope read them ("folded"). For DuckDB; before it:
-- SET VARIABLE workload = 'a pod, container, unit or Slurm job'. Stacks without energy are left out.
SELECT array_to_string(list_transform(list_prepend(e.program, COALESCE(s.frames, ['[unknown]'])), lambda name:
           -- `;` divides names, `#` begins a comment, a number at the end would be an energy.
           COALESCE(NULLIF(regexp_replace(regexp_replace(trim(regexp_replace(replace(name, ';', ':'), '\s+', ' ', 'g')),
               '^#', '_'), ' ([0-9.]+)$', '_\1'), ''), '[no name]')), ';') || ' ' || SUM(e.microjoules) AS folded
FROM energy AS e LEFT JOIN stacks AS s ON e.stack_id = s.stack_id
WHERE getvariable('workload') IN (e.pod_uid, e.container_id, e.unit, CAST(e.slurm_job AS VARCHAR))
GROUP BY e.program, s.frames HAVING SUM(e.microjoules) > 0 ORDER BY 1
