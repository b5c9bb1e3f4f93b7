-- The same for ClickHouse. Of an object store: s3('https://HOST/BUCKET/energy/*/*.parquet', 'KEY', 'SECRET', 'Parquet') for file(…).
SET join_use_nulls = 1;
SET schema_inference_make_columns_nullable = 1;
-- Files of earlier versions have fewer columns.
SET schema_inference_mode = 'union';
CREATE OR REPLACE VIEW energy AS SELECT * FROM file('spool/energy/*/*.parquet', 'Parquet');
CREATE OR REPLACE VIEW ledger AS SELECT * FROM file('spool/ledger/*/*.parquet', 'Parquet');
CREATE OR REPLACE VIEW work AS SELECT * FROM file('spool/work/*/*.parquet', 'Parquet');
CREATE OR REPLACE VIEW stacks AS
SELECT stack_id, MIN(function) AS function, MIN(module) AS module, MIN(api_call) AS api_call
FROM file('spool/stacks/*/*.parquet', 'Parquet') GROUP BY stack_id;
CREATE OR REPLACE VIEW frames AS
SELECT DISTINCT stack_id, arrayJoin(frames) AS frame FROM file('spool/stacks/*/*.parquet', 'Parquet');
CREATE OR REPLACE VIEW pods AS
SELECT pod_uid, namespace, team, budget_j
FROM file('spool/pods.csv', 'CSVWithNames', 'pod_uid String, namespace String, team String, budget_j Int64');
