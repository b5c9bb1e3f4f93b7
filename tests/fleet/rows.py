"""Five million rows of energy, asked by DuckDB: every question of the product in less than a second.

The rows are a recording's, again and again, with other hosts and minutes: in files as `export` makes them, a machine's day each, and as an agent
leaves them, a window each. Leaves out other engines.
"""
import time

import duckdb

from engines import DuckDb

ROWS = 5_000_000
MOST_S = 1.0
# Hosts, and how many files each has.
OF_EXPORT, OF_AGENT = (40, 1), (5, 200)


def copies(first, place, hosts, files):
    """As many files for each host as asked, which have that many rows together; of stacks and ledgers one for each of them."""
    made = duckdb.execute(f"SELECT COUNT(*) FROM read_parquet('{first}/energy/*/*.parquet', hive_partitioning = false)").fetchone()[0]
    each = -(-ROWS // (made * hosts * files))
    for table in ("energy", "stacks", "ledger", "work"):
        source = f"read_parquet('{first}/{table}/*/*.parquet', hive_partitioning = false)"
        (place / table / "date=2026-11-20").mkdir(parents=True)
        for number in range(hosts * files):
            host, part = divmod(number, files)
            at = f"TIMESTAMPTZ '2026-11-20 00:00:00Z' + INTERVAL 1 MINUTE * ({part} * {each} + minute)"
            change = {"stacks": "*"}.get(table, f"* EXCLUDE minute REPLACE ('node{host}' AS host, {at} AS window_start)")
            minutes = "" if table == "stacks" else f", (SELECT UNNEST(RANGE({each})) AS minute)"
            file = place / table / "date=2026-11-20" / f"node{host}-b-{part:013}.parquet"
            duckdb.execute(f"COPY (SELECT {change} FROM {source}{minutes}) TO '{file}' (FORMAT parquet)")
    return made * each * hosts * files


def check(sql, first, folder):
    for name, (hosts, files) in (("export", OF_EXPORT), ("agent", OF_AGENT)):
        place = folder / f"rows-{name}"
        rows = copies(first, place, hosts, files)
        size = sum(file.stat().st_size for file in place.rglob("*.parquet")) / 1e6
        took = {}
        with DuckDb(sql, place) as engine:
            assert engine.rows("SELECT COUNT(*) FROM energy") == [(rows,)]
            for path in sorted(sql.glob("*.sql")):
                if path.stem.startswith("views"):
                    continue
                began = time.monotonic()
                engine.rows(path.read_text())
                took[path.stem] = time.monotonic() - began
        said = ", ".join(f"{question} {seconds:.2f}" for question, seconds in took.items())
        print(f"{rows} rows in {hosts * files} files as of {name}, {size:.0f} MB: {said} s", flush=True)
        if name == "export":
            assert max(took.values()) < MOST_S, f"slower than {MOST_S} s"
