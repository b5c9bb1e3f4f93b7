-- A day's small files, which are slow to ask, as one of each table; no microjoule goes. With your day for DAY, after `mkdir -p compact/energy compact/stacks
-- compact/ledger compact/work`, which the views then read in the place of `spool`. DuckDB refuses a day that is there: what is there twice counts twice.
COPY (SELECT * FROM read_parquet('spool/energy/date=DAY/*.parquet', union_by_name = true, hive_partitioning = false) ORDER BY program, stack_id, window_start)
TO 'compact/energy/date=DAY' (FORMAT parquet, PER_THREAD_OUTPUT true);
COPY (SELECT DISTINCT * FROM read_parquet('spool/stacks/date=DAY/*.parquet', union_by_name = true, hive_partitioning = false) ORDER BY frames)
TO 'compact/stacks/date=DAY' (FORMAT parquet, PER_THREAD_OUTPUT true);
COPY (SELECT * FROM read_parquet('spool/ledger/date=DAY/*.parquet', union_by_name = true, hive_partitioning = false) ORDER BY host, window_start)
TO 'compact/ledger/date=DAY' (FORMAT parquet, PER_THREAD_OUTPUT true);
COPY (SELECT * FROM read_parquet('spool/work/date=DAY/*.parquet', union_by_name = true, hive_partitioning = false) ORDER BY host, window_start)
TO 'compact/work/date=DAY' (FORMAT parquet, PER_THREAD_OUTPUT true);
