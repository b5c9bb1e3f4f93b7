"""Five million rows of energy, asked by DuckDB: every question of the product in less than a second.

The rows are a recording's, again and again, with other hosts and minutes: in files as `export` makes them, a machine's day each, as an agent leaves
them, a window each, and as `compact.duckdb.sql` writes the latter anew. Leaves out other engines.
"""
import time

import duckdb

from engines import DuckDb, statements

ROWS = 5_000_000
DAY = "2026-11-20"
MOST_S = 1.0
# Hosts, and how many files each has.
OF_EXPORT, OF_AGENT = (40, 1), (5, 200)


def copies(first, place, hosts, files):
    """As many files for each host as asked, which have that many rows together; of stacks and ledgers one for each of them."""
    made = duckdb.execute(f"SELECT COUNT(*) FROM read_parquet('{first}/energy/*/*.parquet', hive_partitioning = false)").fetchone()[0]
    each = -(-ROWS // (made * hosts * files))
    for table in ("energy", "stacks", "ledger", "work"):
        source = f"read_parquet('{first}/{table}/*/*.parquet', hive_partitioning = false)"
        (place / table / f"date={DAY}").mkdir(parents=True)
        for number in range(hosts * files):
            host, part = divmod(number, files)
            at = f"TIMESTAMPTZ '{DAY} 00:00:00Z' + INTERVAL 1 MINUTE * ({part} * {each} + minute)"
            change = {"stacks": "*"}.get(table, f"* EXCLUDE minute REPLACE ('node{host}' AS host, {at} AS window_start)")
            minutes = "" if table == "stacks" else f", (SELECT UNNEST(RANGE({each})) AS minute)"
            file = place / table / f"date={DAY}" / f"node{host}-b-{part:013}.parquet"
            duckdb.execute(f"COPY (SELECT {change} FROM {source}{minutes}) TO '{file}' (FORMAT parquet)")
    return made * each * hosts * files


def answers(sql, place, rows):
    """What each question is answered, and how many seconds the slowest takes."""
    size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / 1e6
    took, found = {}, {}
    with DuckDb(sql, place) as engine:
        assert engine.rows("SELECT COUNT(*) FROM energy") == [(rows,)]
        for path in sorted(sql.glob("*.sql")):
            if path.stem.startswith(("views", "compact")):
                continue
            began = time.monotonic()
            found[path.stem] = engine.rows(path.read_text())
            took[path.stem] = time.monotonic() - began
    said = ", ".join(f"{question} {seconds:.2f}" for question, seconds in took.items())
    files = len(list(place.glob("energy/*/*.parquet")))
    print(f"{rows} rows in {files} files of {place.name}, {size:.0f} MB: {said} s", flush=True)
    return found, max(took.values())


def compact(sql, place, to):
    """Writes the tables of the day anew, once."""
    for table in ("energy", "stacks", "ledger", "work"):
        (to / table).mkdir(parents=True)
    began = time.monotonic()
    for statement in statements(sql / "compact.duckdb.sql", place):
        statement = statement.replace("'compact/", f"'{to}/").replace("=DAY", f"={DAY}")
        duckdb.execute(statement)
        try:
            duckdb.execute(statement)
        except duckdb.Error:
            continue
        raise AssertionError(f"written twice: {statement}")
    print(f"{place.name} anew in {time.monotonic() - began:.1f} s", flush=True)


def check(sql, first, folder):
    places = {name: folder / f"rows-{name}" for name in ("export", "agent", "compact")}
    rows = {name: copies(first, places[name], *of) for name, of in (("export", OF_EXPORT), ("agent", OF_AGENT))}
    slowest = answers(sql, places["export"], rows["export"])[1]
    many = answers(sql, places["agent"], rows["agent"])[0]
    compact(sql, places["agent"], places["compact"])
    few, slow = answers(sql, places["compact"], rows["agent"])
    assert few == many, [question for question in many if few[question] != many[question]]
    assert max(slowest, slow) < MOST_S, f"slower than {MOST_S} s"
