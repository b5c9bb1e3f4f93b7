-- The same for DataFusion.
CREATE EXTERNAL TABLE energy STORED AS PARQUET PARTITIONED BY (date) LOCATION 'spool/energy/';
CREATE EXTERNAL TABLE ledger STORED AS PARQUET PARTITIONED BY (date) LOCATION 'spool/ledger/';
CREATE EXTERNAL TABLE work STORED AS PARQUET PARTITIONED BY (date) LOCATION 'spool/work/';
CREATE EXTERNAL TABLE all_stacks STORED AS PARQUET PARTITIONED BY (date) LOCATION 'spool/stacks/';
CREATE VIEW stacks AS
SELECT stack_id, MIN(function) AS function, MIN(module) AS module, MIN(api_call) AS api_call
FROM all_stacks GROUP BY stack_id;
CREATE VIEW frames AS SELECT DISTINCT stack_id, UNNEST(frames) AS frame FROM all_stacks;
CREATE EXTERNAL TABLE pods STORED AS CSV LOCATION 'spool/pods.csv' OPTIONS ('format.has_header' 'true');
