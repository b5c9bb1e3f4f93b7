"""Debian's Slurm with two nodes on this machine, munge, and Open MPI's `mpirun` in a job of both: each rank recorded by itself on simulated power,
the ranks merged, and the job in the tables of an agent, of which the example's epilog gives the user theirs.

Packages are unpacked and laid over this machine's files (overlayfs) in a mount namespace, where all of Slurm runs; each node has a counter of its own.

    python tests/fleet/slurm.py PROGRAM SIMULATOR ROOT FOLDER      as root; ROOT has the packages
"""
import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

import duckdb

from agent import Agent

NODES = ("n1", "n2")
SECONDS = 12
CONF = """ClusterName=energy
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool.%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.%n.log
SlurmctldPort=46817
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=46821 CPUs=1
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=46822 CPUs=1
Epilog={place}/epilog.sh
PartitionName=all Nodes=n1,n2 Default=YES State=UP MaxTime=10
"""
CGROUP = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainCores=no\n"
EPILOG = pathlib.Path(__file__).parents[2] / "examples/agent/slurm-epilog.sh"
# In the namespace: the packages' files among this machine's.
LAID_OVER = 'mount -t overlay none -o "lowerdir=$0/usr:/usr" /usr && exec "$@"'
WORK = f"import time\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: sum(i * i for i in range(10_000))"


def write_epilog(place, spool):
    """The example as a site would have it: its own spool and tables, short windows, and DuckDB's program."""
    text = EPILOG.read_text()
    own = {"spool=/var/lib/energy-trace/spool": f"spool={spool}", "tables=/var/lib/energy-trace/jobs": f"tables={place}/tables", "wait=90": "wait=8", " duckdb ": f" {place}/duckdb "}
    for words, others in own.items():
        assert text.count(words) == 1, words
        text = text.replace(words, others)
    (place / "epilog.sh").write_text(text)
    (place / "epilog.sh").chmod(0o755)
    shutil.copy(pathlib.Path(duckdb.__file__).parents[1] / "duckdb_cli/duckdb", place / "duckdb")
    (place / "duckdb").chmod(0o755)


def tables_of(place, job):
    """Microjoules of the job by what the epilog left of each node."""
    files = [place / "tables" / f"{job}-{node}.csv" for node in NODES]
    for _ in range(60):
        if all(file.exists() for file in files):
            break
        time.sleep(1)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    return [sum(int(row["microjoules"]) for row in csv.DictReader(file.open())) for file in files]


class Slurm(contextlib.AbstractContextManager):
    """Its daemons; `run` is a command beside them."""

    def __init__(self, root, place, spool):
        self.root, self.place, self.daemons = root, place, []
        host = os.uname().nodename
        (place / "state").mkdir()
        write_epilog(place, spool)
        (place / "munge.key").write_bytes(os.urandom(128))
        (place / "munge.key").chmod(0o400)
        (place / "slurm.conf").write_text(CONF.format(host=host, place=place))
        (place / "cgroup.conf").write_text(CGROUP)
        munge = ["munged", "--foreground", "--force", f"--socket={place}/munge.socket", f"--key-file={place}/munge.key"]
        munge += [f"--{what}-file={place}/munge.{what}" for what in ("pid", "log", "seed")]
        self.start(munge)
        time.sleep(1)
        self.start(["slurmctld", "-D", "-f", f"{place}/slurm.conf"])
        for node in NODES:
            self.start(["slurmd", "-D", "-N", node, "-f", f"{place}/slurm.conf"])

    def command(self, words):
        return ["unshare", "--mount", "sh", "-c", LAID_OVER, self.root, *words]

    def start(self, words):
        # A daemon of its own group ends with all that it started.
        self.daemons.append(subprocess.Popen(self.command(words), env=self.environment(), start_new_session=True))

    def environment(self):
        # OPAL looks for its own files where it was built for: they lie there.
        return {**os.environ, "SLURM_CONF": f"{self.place}/slurm.conf", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

    def run(self, words, **more):
        return subprocess.run(self.command(words), env=self.environment(), check=True, text=True, capture_output=True, timeout=120, **more).stdout

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()


def ready(slurm):
    for _ in range(60):
        said = slurm.run(["sinfo", "-h", "-o", "%D %t"])
        if "2 idle" in said:
            return
        time.sleep(1)
    logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in slurm.place.glob("*.log"))
    sys.exit(f"the nodes do not come: {said}\n{logs}")


def report(program, recording):
    return json.loads(subprocess.check_output([program, "report", recording, "--format", "json"]))


def ledger(program, recording):
    return sum(row["measured_uj"] for row in report(program, recording)["ledger"])


def of_cpu(program, recording):
    stacks = json.loads(subprocess.check_output([program, "export", "--format", "json", recording]))["stacks"]
    return sum(stack["cpu_ns"] for stack in stacks) / 1e9


def link_alternatives(root):
    """Names that the packages' own scripts would make."""
    for name in ("slurmctld", "slurmd", "slurmstepd"):
        link = pathlib.Path(root) / "usr/sbin" / name
        if not link.is_symlink():
            link.symlink_to(f"{name}-wlm")


def main(program, simulator, root, folder):
    link_alternatives(root)
    place = pathlib.Path(folder) / "slurm"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    # The epilog's program is run by the spool's owner.
    pathlib.Path(folder).chmod(0o711)
    simulations = [subprocess.Popen([simulator, place / f"sys-{node}", "--idle-watts", "10"], stdout=subprocess.PIPE, text=True) for node in NODES]
    try:
        for simulation in simulations:
            assert simulation.stdout.readline()
        with Agent(program) as agent, Slurm(root, place, agent.spool) as slurm:
            agent.url()
            ready(slurm)
            # Two machines have a boot each.
            for node in NODES:
                (place / f"boot-{node}").write_text(f"{uuid.uuid4()}\n")
            record = f'mount --bind {place}/boot-$SLURMD_NODENAME /proc/sys/kernel/random/boot_id && exec {program} record -q --power powercap --path.sysfs {place}/sys-$SLURMD_NODENAME --idle-watts 10 -o {place}/run-%r.data "$@"'
            work = ["unshare", "--mount", "sh", "-c", record, "sh", "--", sys.executable, "-c", WORK]
            mpirun = ["mpirun.openmpi", "--allow-run-as-root", "--map-by", "node", "-n", "2", *work]
            said = slurm.run(["salloc", "-N2", "-n2", "sh", "-c", 'echo "job $SLURM_JOB_ID"; exec "$@"', "sh", *mpirun])
            job = int(re.search(r"job (\d+)", said)[1])
            of_epilog = tables_of(place, job)
            agent.end()
            rows = f"read_parquet('{agent.spool}/energy/*/*.parquet', union_by_name = true)"
            question = f"SELECT slurm_step, program, SUM(microjoules), SUM(cpu_ns) FROM {rows} WHERE slurm_job = {job} GROUP BY 1, 2 ORDER BY 4 DESC"
            table = duckdb.execute(question).fetchall()
    finally:
        for simulation in simulations:
            simulation.terminate()
            simulation.wait()
    ranks, merged = [place / f"run-{rank}.data" for rank in range(2)], place / "all.data"
    subprocess.run([program, "merge", merged, *ranks], check=True)
    of_ranks, of_all = [ledger(program, rank) for rank in ranks], ledger(program, merged)
    print(f"job {job}: ranks {of_ranks} microjoules, merged {of_all}; the agent's table by step: {table}", flush=True)
    assert sum(of_ranks) == of_all, "ranks and what they are merged into differ"
    for rank, recording in enumerate(ranks):
        print(f"rank {rank}: {of_cpu(program, recording):.2f} s of CPU time", flush=True)
    # Both nodes are this machine, and have its spool.
    assert of_epilog == [sum(row[2] for row in table)] * 2 and of_epilog[0] > 0, f"the epilog's tables have {of_epilog} microjoules"
    cpu = sum(row[3] for row in table if row[1].startswith("python")) / 1e9
    recorded = sum(of_cpu(program, rank) for rank in ranks)
    # A rank begins before its recording and ends behind it.
    assert abs(cpu / recorded - 1) < 0.05, f"{cpu} s of CPU time of the job, {recorded} s in its ranks: {table}"


if __name__ == "__main__":
    main(*sys.argv[1:5])
