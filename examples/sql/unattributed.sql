-- Why energy is nobody's.
SELECT host, class, unattributed_reason, SUM(unattributed_uj) AS uj
FROM ledger WHERE unattributed_reason IS NOT NULL
GROUP BY host, class, unattributed_reason ORDER BY 1, 2, 4 DESC, 3
