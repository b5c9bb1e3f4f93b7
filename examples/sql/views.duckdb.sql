-- The tables of `energy-trace export --format parquet-fleet -o spool`, for DuckDB. Put the place of yours for `spool`; an object store's is s3://….
CREATE OR REPLACE VIEW energy AS
SELECT * FROM read_parquet('spool/energy/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW ledger AS
SELECT * FROM read_parquet('spool/ledger/*/*.parquet', hive_partitioning = true, union_by_name = true);
CREATE OR REPLACE VIEW work AS
SELECT * FROM read_parquet('spool/work/*/*.parquet', hive_partitioning = true, union_by_name = true);
-- Every machine and day has its own copy of a stack; here each is once.
CREATE OR REPLACE VIEW stacks AS
SELECT stack_id, MIN(function) AS function, MIN(module) AS module, MIN(api_call) AS api_call, ANY_VALUE(frames) AS frames
FROM read_parquet('spool/stacks/*/*.parquet', union_by_name = true) GROUP BY stack_id;
CREATE OR REPLACE VIEW frames AS
SELECT DISTINCT stack_id, UNNEST(frames) AS frame FROM read_parquet('spool/stacks/*/*.parquet', union_by_name = true);
-- What you know of pods: pod_uid, namespace, team, budget_j (joules); without such a file no pod has a team.
SET VARIABLE pods = COALESCE(
    (SELECT 'FROM read_csv(''' || file || ''', header = true)' FROM glob('spool/pods.csv')),
    'SELECT NULL AS pod_uid, NULL AS namespace, NULL AS team, NULL AS budget_j LIMIT 0');
CREATE OR REPLACE VIEW pods AS
SELECT CAST(pod_uid AS VARCHAR) AS pod_uid, CAST(namespace AS VARCHAR) AS namespace, CAST(team AS VARCHAR) AS team,
       CAST(budget_j AS BIGINT) AS budget_j
FROM query(getvariable('pods'));
