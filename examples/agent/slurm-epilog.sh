#!/bin/sh
# Slurm: leaves each job's user the joules of the job on this node, so that jobs need no privileges. In slurm.conf: Epilog=/etc/slurm/energy-epilog.sh
#
# Each node runs `energy-trace agent --spool DIR`, one recorder for all ranks, and has DuckDB's program. A row for each step and function, in microjoules
# and nanoseconds of CPU time, becomes TABLES/JOB-NODE.csv, which the job's user alone may read. What fails is in the system's log.
spool=/var/lib/energy-trace/spool
tables=/var/lib/energy-trace/jobs
# The job's last window ends, and is written, so many seconds later at the most: for the agent's --window of 60s.
wait=90
# Slurm gives an epilog none.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH

case $SLURM_JOB_ID$SLURM_JOB_UID in *[!0-9]* | '') exit 0 ;; esac
query="SELECT slurm_step, program, function, SUM(microjoules) AS microjoules, SUM(cpu_ns) AS cpu_ns
FROM read_parquet('$spool/energy/*/*.parquet', union_by_name = true)
LEFT JOIN (SELECT stack_id, MIN(function) AS function FROM read_parquet('$spool/stacks/*/*.parquet') GROUP BY 1) USING (stack_id)
WHERE slurm_job = $SLURM_JOB_ID GROUP BY 1, 2, 3 ORDER BY 4 DESC"
# The spool's owner reads what they have written, and root writes into a folder of root's alone.
table() {
    sleep "$wait"
    install -d -m 0755 "$tables" && new=$(mktemp "$tables/new.XXXXXX") || return
    if setpriv --reuid "$(stat -c %u "$spool")" --regid "$(stat -c %g "$spool")" --clear-groups --no-new-privs \
        timeout 60 duckdb -csv -c "$query" >"$new"; then
        chown "$SLURM_JOB_UID" "$new" && mv "$new" "$tables/$SLURM_JOB_ID-$SLURMD_NODENAME.csv"
    else
        rm "$new"
        echo "no table of job $SLURM_JOB_ID: the lines above say why"
    fi
}
# The node is free for the next job meanwhile.
table 2>&1 </dev/null | logger -t energy-epilog >/dev/null 2>&1 &
