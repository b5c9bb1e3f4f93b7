-- Pods by team against their budgets, from the table `pods`; a pod that the table does not know has no team.
SELECT p.team, COALESCE(p.namespace, e.namespace) AS namespace, e.pod_uid, e.uj, p.budget_j * 1000000 - e.uj AS left_uj
FROM (SELECT pod_uid, MAX(namespace) AS namespace, SUM(microjoules) AS uj FROM energy WHERE pod_uid IS NOT NULL GROUP BY pod_uid) AS e
LEFT JOIN pods AS p ON e.pod_uid = p.pod_uid
ORDER BY 4 DESC, 3
