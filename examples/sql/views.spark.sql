-- The same for Spark and Sail. Files of earlier versions have fewer columns: `mergeSchema`.
CREATE OR REPLACE TEMPORARY VIEW energy USING parquet OPTIONS (path 'spool/energy', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW ledger USING parquet OPTIONS (path 'spool/ledger', mergeSchema 'true');
CREATE OR REPLACE TEMPORARY VIEW work USING parquet OPTIONS (path 'spool/work');
CREATE OR REPLACE TEMPORARY VIEW all_stacks USING parquet OPTIONS (path 'spool/stacks');
CREATE OR REPLACE TEMPORARY VIEW stacks AS
SELECT stack_id, MIN(function) AS function, MIN(module) AS module, MIN(api_call) AS api_call
FROM all_stacks GROUP BY stack_id;
CREATE OR REPLACE TEMPORARY VIEW frames AS
SELECT DISTINCT stack_id, EXPLODE(frames) AS frame FROM all_stacks;
CREATE OR REPLACE TEMPORARY VIEW all_pods USING csv OPTIONS (path 'spool/pods.csv', header 'true', inferSchema 'true');
-- In microjoules a budget is no 32-bit number.
CREATE OR REPLACE TEMPORARY VIEW pods AS
SELECT pod_uid, namespace, team, CAST(budget_j AS BIGINT) AS budget_j FROM all_pods;
