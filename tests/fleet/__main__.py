"""Asks real engines what a fleet used, by the product's own SQL: `cargo xtask fleet`.

All engines must give the same microjoules, and those of the recording's own report. The fleet is the recording's machine and eight more, with
its rows on fifteen days; the spool of an agent that runs meanwhile is asked too. Leaves out what the numbers mean.

    python tests/fleet PROGRAM RECORDING FOLDER ENGINE…      ENGINE: duckdb clickhouse datafusion sail spark s3 otlp soak day hosts rows dashboard
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import duckdb

from agent import Agent
from engines import ENGINES

SQL = pathlib.Path(__file__).parents[2] / "examples/sql"
# Those of one engine have its name.
QUESTIONS = sorted(path.stem for path in SQL.glob("*.sql") if "." not in path.stem)
POD = "7f1d2e3c-0a1b-4c5d-8e9f-00112233445"
HOSTS, DAYS = 8, 15
# Columns that files of earlier versions lack.
NEW = {"energy": "namespace", "ledger": "unattributed_reason, removed_windows, clock_step_ns, clock_error_ns"}
# For so long an agent runs.
SECONDS = 13


def export(program, recording, spool):
    command = [program, "export", recording, "--format", "parquet-fleet", "-o", spool]
    subprocess.run(command, check=True)
    return {str(path.relative_to(spool)): path.read_bytes() for path in spool.rglob("*.parquet")}


def target_of(program, recording):
    report = json.loads(subprocess.check_output([program, "report", recording, "--format", "json"]))
    return sum(row["target_uj"] for row in report["ledger"] if row["class"] in ("package", "dram", "gpu"))


def add_machines(spool):
    """Copies of the machine on other days, some of them a pod's or a job's, with keys as the product makes them; those of the last host by a version
    that knew less."""
    whose = {0: f"'shop' AS namespace, '{POD}' || $host AS pod_uid", 1: "CAST($host AS BIGINT) AS slurm_job, '0' AS slurm_step"}
    first = {table: [str(path) for path in (spool / table).rglob("*.parquet")] for table in ("energy", "stacks", "ledger", "work")}
    for host in range(HOSTS):
        for day in range(DAYS):
            change = f"'node{host}' AS host, window_start - INTERVAL {day} DAY AS window_start"
            of_ledger = f"{change}, measured_uj + 7 AS measured_uj, unattributed_uj + 7 AS unattributed_uj, 'a reason' AS unattributed_reason, 1::BIGINT AS removed_windows"
            of = {"energy": ", ".join([change, *filter(None, [whose.get(host % 3, "").replace("$host", str(host))])]), "ledger": of_ledger if host == 0 else change, "work": change}
            for table, paths in first.items():
                date = duckdb.execute("SELECT CAST(min(window_start) AS DATE) - ? FROM read_parquet(?)", [day, first["ledger"]]).fetchone()[0]
                place = spool / table / f"date={str(date)[:10]}"
                place.mkdir(parents=True, exist_ok=True)
                chosen = f"* REPLACE ({of[table]})" if table in of else "*"
                rows = f"SELECT {chosen} FROM read_parquet({paths}, hive_partitioning = false)"
                if host == HOSTS - 1 and table in NEW:
                    rows = f"SELECT * EXCLUDE ({NEW[table]}) FROM ({rows})"
                duckdb.execute(f"COPY ({rows}) TO '{place}/node{host}-b{host}-{day:013}.parquet' (FORMAT parquet)")
    pods = "".join(f"{POD}{host},web,team{host},{(host + 1) * 1000_000}\n" for host in (0, 3))
    (spool / "pods.csv").write_text("pod_uid,namespace,team,budget_j\n" + pods)


def cell(value):
    """A value as all engines have it."""
    if value is None or isinstance(value, str) and not value.lstrip("-").isdigit():
        return value
    return int(value)


def rows_of(rows):
    return sorted((tuple(map(cell, row)) for row in rows), key=repr)


def ask(name, spool, expected):
    """Every question, by an engine; what differs from `expected` is an error."""
    start, answers = time.monotonic(), {}
    with ENGINES[name](SQL, spool) as engine:
        began = time.monotonic()
        for question in QUESTIONS:
            answers[question] = rows_of(engine.rows((SQL / f"{question}.sql").read_text()))
    print(f"{name}: {len(QUESTIONS)} questions in {time.monotonic() - began:.1f} s, started in {began - start:.1f} s", flush=True)
    for question, rows in (expected or {}).items():
        if rows != answers[question]:
            differ = [pair for pair in zip(rows, answers[question]) if pair[0] != pair[1]][:3]
            sys.exit(f"{name} answers {question} otherwise: {len(rows)} and {len(answers[question])} rows, {differ}")
    return answers


def look(answers, target_uj):
    """What any fleet's answers must be."""
    check = answers["check"]
    assert check and all(row[4] == row[5] == 0 for row in check), f"tables do not add up: {check}"
    copies = 1 + HOSTS * DAYS
    total = sum(row[3] for row in check)
    assert total == copies * target_uj, f"{total} microjoules, and {copies} times {target_uj} were charged"
    for question, column in (("top_functions", 1), ("api_calls", 1), ("workloads", 6)):
        found = sum(row[column] for row in answers[question])
        assert found == total, f"{question}: {found} of {total} microjoules"
    weeks = [sum(row[column] for row in answers["week_before"]) for column in (1, 2)]
    assert weeks[0] > weeks[1] > 0, weeks
    removed = {row[:2] for row in answers["machines"] if row[-1]}
    of_reason = {row[:2] for row in answers["unattributed"] if row[2] == "a reason" and row[3] >= 7 * DAYS}
    assert removed == of_reason and {host for host, _ in removed} == {"node0"}, (removed, answers["unattributed"])
    namespaces = {row[:2] for row in answers["workloads"] if row[1]}
    assert namespaces == {("shop", f"{POD}{host}") for host in range(0, HOSTS, 3)}, namespaces
    budgets, teams = answers["budgets"], {row[0]: row[1:] for row in answers["budgets_by_team"]}
    assert teams.keys() == {"team0", "team3", None} == {row[0] for row in budgets}, (budgets, teams)
    for team, (uj, left) in teams.items():
        # Of pods that nobody knows there is no budget.
        of_pods = [sum(row[column] or 0 for row in budgets if row[0] == team) for column in (3, 4)]
        assert [uj, left or 0] == of_pods, (budgets, teams)
    print(f"{total} microjoules of {copies} days of machines: tables, ledger and report agree", flush=True)


def folded(engine, workload):
    """A workload's stacks, as viewers read them, and their sum."""
    engine.connection.execute("SET VARIABLE workload = ?", [workload])
    lines = [row[0] for row in engine.rows((SQL / "folded.duckdb.sql").read_text())]
    found = [re.fullmatch(r"[^\s;#][^;\n]*(;[^;\n]+)* (\d+)", line) for line in lines]
    assert lines and all(found), lines
    return lines, sum(int(line[2]) for line in found)


def look_at_folded(spool):
    with ENGINES["duckdb"](SQL, spool) as engine:
        for column, workload in (("pod_uid", POD + "3"), ("slurm_job", "1")):
            lines, uj = folded(engine, workload)
            [(expected,)] = engine.rows(f"SELECT SUM(microjoules) FROM energy WHERE {column} = '{workload}'")
            assert uj == expected, f"{workload}: {uj} of {expected} microjoules in folded stacks"
        print(f"folded: {len(lines)} stacks, {uj} microjoules", flush=True)
        # Whatever names hold.
        rows = "SELECT '# a' AS program, NULL AS pod_uid, NULL AS container_id, 'u' AS unit, NULL AS slurm_job, 1 AS stack_id"
        engine.connection.execute(f"CREATE OR REPLACE VIEW energy AS SELECT *, UNNEST([7, 8]) AS microjoules FROM ({rows})")
        engine.connection.execute("CREATE OR REPLACE VIEW stacks AS SELECT 1 AS stack_id, ['b;c', '', E'd\\n\\te 3', 'f 4'] AS frames")
        assert folded(engine, "u")[0] == ["_ a;b:c;[no name];d e_3;f_4 15"], folded(engine, "u")


def of_agent(program, folder):
    """A copy of what an agent has written in some windows."""
    with Agent(program, more=("--work", "second=file:/proc/uptime")) as agent:
        time.sleep(SECONDS)
        windows = agent.end()[0]
        targets, spool = agent.targets(), folder / "agent"
        shutil.copytree(agent.spool, spool)
    # Nobody has written down what he knows of pods: those that somebody else's programs are in have no team.
    assert {row[0] for row in ask("duckdb", spool, None)["budgets_by_team"]} <= {None} and not (spool / "pods.csv").exists()
    shutil.copy(folder / "spool/pods.csv", spool)
    answers = ask("duckdb", spool, None)
    check = answers["check"]
    assert all(row[4] == row[5] == 0 for row in check), f"an agent's tables do not add up: {check}"
    assert sum(row[3] for row in check) == sum(targets.values()) > 0, check
    [(_, unit, units, uj, each)] = answers["joules_per_unit"]
    assert unit == "second" and units > 0 and 0 < uj <= sum(targets.values()) and uj // (units + 1) <= each <= uj // units, answers["joules_per_unit"]
    print(f"agent: {windows} windows, {sum(targets.values())} microjoules of programs", flush=True)
    return spool, answers


def of_hosts(program, folder):
    """What eight machines have uploaded, also from an object store."""
    import hosts
    from store import over_s3

    bucket = hosts.check(program, folder)
    shutil.copy(folder / "spool/pods.csv", bucket)
    answers = ask("duckdb", bucket, None)
    over_s3(folder, bucket, lambda name, url: ask(name, url, answers))
    check = answers["check"]
    assert len({row[0] for row in check}) == hosts.HOSTS and all(row[4] == row[5] == 0 for row in check), check


def main(program, recording, folder, engines):
    folder = pathlib.Path(folder)
    spool, again = folder / "spool", folder / "again"
    for place in (spool, again, *(folder / name for name in ("agent", "hosts", "rows-export", "rows-agent", "rows-compact"))):
        shutil.rmtree(place, ignore_errors=True)
    first, second = export(program, recording, spool), export(program, recording, again)
    assert first == second and len(first) % 4 == 0 and first, f"two exports differ: {sorted(first)}, {sorted(second)}"
    add_machines(spool)
    expected = ask("duckdb", spool, None)
    target_uj = target_of(program, recording)
    look(expected, target_uj)
    look_at_folded(spool)
    spools = [(spool, expected), of_agent(program, folder)]
    for engine in engines:
        if engine == "otlp":
            import otlp

            otlp.check(program, recording, target_uj)
            continue
        if engine == "dashboard":
            import dashboard

            dashboard.check(SQL.parent / "agent/grafana-dashboard.json")
            continue
        if engine in ("soak", "day", "hosts", "rows"):
            import rows
            import soak

            run = {"soak": lambda: soak.check(program), "day": lambda: soak.day(program), "hosts": lambda: of_hosts(program, folder), "rows": lambda: rows.check(SQL, again, folder)}
            run[engine]()
            continue
        for place, answers in spools if engine != "duckdb" else []:
            if engine in ("s3", "spark"):
                import store

                over = {"s3": store.over_s3, "spark": store.spark_over_s3}[engine]
                over(folder, place, lambda name, url: ask(name, url, answers))
            else:
                ask(engine, place, answers)


os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
main(*sys.argv[1:4], sys.argv[4:])
