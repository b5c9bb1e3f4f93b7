-- Teams against the budgets of their pods, from the table `pods`; pods that the table does not know are in the row without a team.
SELECT p.team, SUM(COALESCE(e.uj, 0)) AS uj, SUM(p.budget_j * 1000000 - COALESCE(e.uj, 0)) AS left_uj
FROM (SELECT pod_uid, SUM(microjoules) AS uj FROM energy WHERE pod_uid IS NOT NULL GROUP BY pod_uid) AS e
FULL JOIN pods AS p ON e.pod_uid = p.pod_uid
GROUP BY p.team ORDER BY 2 DESC, 1
