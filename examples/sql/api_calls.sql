-- Calls of packages by their public names, such as torch.autograd.backward, with all that they cause.
SELECT s.api_call, SUM(e.microjoules) AS uj, SUM(e.cpu_ns) AS on_cpu_ns
FROM energy AS e LEFT JOIN stacks AS s ON e.stack_id = s.stack_id
GROUP BY s.api_call ORDER BY 2 DESC, 1
