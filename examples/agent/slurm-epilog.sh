#!/bin/sh
# Slurm: gives each job's user the joules of the job on this node, so that jobs need no privileges. In slurm.conf: Epilog=/etc/slurm/energy-epilog.sh
#
# Each node runs `energy-trace agent --spool DIR`, one recorder for all ranks, and has DuckDB's program. The table, a row for each step and function
# in microjoules and nanoseconds of CPU time, becomes energy-JOB-NODE.csv in the home of the job's user.
spool=/var/lib/energy-trace/spool
# The job's last window ends, and is written, so many seconds later at the most.
wait=90

case $SLURM_JOB_ID$SLURM_JOB_UID in *[!0-9]* | '') exit 0 ;; esac
query="SELECT slurm_step, program, function, SUM(microjoules) AS microjoules, SUM(cpu_ns) AS cpu_ns
FROM read_parquet('$spool/energy/*/*.parquet', union_by_name = true)
LEFT JOIN (SELECT stack_id, MIN(function) AS function FROM read_parquet('$spool/stacks/*/*.parquet') GROUP BY 1) USING (stack_id)
WHERE slurm_job = $SLURM_JOB_ID GROUP BY 1, 2, 3 ORDER BY 4 DESC"
as_user() {
    user=$1 group=$2
    shift 2
    setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs "$@"
}
# Root reads nothing that others write, and writes nothing where others may.
table() {
    sleep "$wait"
    file=$(getent passwd "$SLURM_JOB_UID" | cut -d: -f6)/energy-$SLURM_JOB_ID-$SLURMD_NODENAME.csv
    # shellcheck disable=SC2016
    as_user "$(stat -c %u "$spool")" "$(stat -c %g "$spool")" duckdb -csv -c "$query" |
        as_user "$SLURM_JOB_UID" "$(id -g "$SLURM_JOB_UID")" sh -c 'cat >"$1"' sh "$file"
}
# The node is free for the next job meanwhile.
table </dev/null >/dev/null 2>&1 &
