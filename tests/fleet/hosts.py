"""Eight machines on this one: an agent each, with a name of its own (UTS namespace). One has a clock that is 3 s ahead, one is uploaded twice, one is
killed: of all others nothing is lost or doubled, and of the killed one what it had shown is there.

Leaves out what is asked of their tables. The clock is that of `libfaketime`, which FLEET_FAKETIME names.
"""
import os
import pathlib
import re
import shutil
import signal
import time
import urllib.request

import duckdb

from agent import Agent

HOSTS, SECONDS, WINDOW_US = 8, 20, 2_000_000
AHEAD, TWICE, KILLED = 1, 2, 3
COUNTER = re.compile(r"^energy_trace_domain_joules_total\{.*\} (\d+)\.(\d{6})$", re.M)
END = re.compile(r"^energy_trace_agent_window_end_timestamp_seconds (\d+)\.(\d{6})", re.M)


def command_of(host):
    faked = ["env", f"LD_PRELOAD={os.environ['FLEET_FAKETIME']}", "FAKETIME=+3s", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
    return ["unshare", "--uts", "sh", "-c", f'hostname node{host}; exec "$@"', "sh", *(faked if host == AHEAD else [])]


def micro(found):
    return int(found[0]) * 1_000_000 + int(found[1])


def shown(agent):
    """The counters that its page shows, in microjoules, and up to when, in microseconds since 1970."""
    page = urllib.request.urlopen(agent.url(), timeout=5).read().decode()
    return sum(micro(of) for of in COUNTER.findall(page)), micro(END.search(page).groups())


def upload(spool, bucket):
    for file in pathlib.Path(spool).rglob("*.parquet"):
        place = bucket / file.relative_to(spool)
        place.parent.mkdir(parents=True, exist_ok=True)
        assert not place.exists() or place.read_bytes() == file.read_bytes(), place
        shutil.copy(file, place)


def check(program, folder):
    bucket = folder / "hosts"
    agents = [Agent(program, before=command_of(host), loop=host == 0) for host in range(HOSTS)]
    try:
        for agent in agents:
            agent.url()
        time.sleep(SECONDS)
        pages = [shown(agent) for agent in agents]
        killed = agents[KILLED].process
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        # At the same time: the last windows tell whose clock is ahead.
        for host, agent in enumerate(agents):
            if host != KILLED:
                agent.stop()
        windows = [agent.end()[0] if host != KILLED else None for host, agent in enumerate(agents)]
        for host, agent in enumerate(agents):
            for _ in range(2 if host == TWICE else 1):
                upload(agent.spool, bucket)
    finally:
        for agent in agents:
            agent.__exit__()
    files = f"read_parquet('{bucket}/ledger/*/*.parquet')"
    for host, (page, count) in enumerate(zip(pages, windows)):
        whole, until, rows = duckdb.execute(
            f"""SELECT SUM(measured_uj), SUM(measured_uj) FILTER (epoch_us(window_start) + window_ns / 1000 <= ? + {WINDOW_US // 2}),
                COUNT(DISTINCT window_start) FROM {files} WHERE host = ?""", [page[1], f"node{host}"]).fetchone()
        assert until == page[0], f"node{host}: {until} microjoules in files, and {page[0]} on its page"
        assert count is None or rows == count, f"node{host}: {rows} windows, not {count}"
        print(f"node{host}: {rows} windows, {whole} microjoules, as its page had it", flush=True)
    ends = dict(duckdb.execute(f"SELECT host, MAX(epoch_us(window_start)) FROM {files} GROUP BY 1").fetchall())
    ahead = ends[f"node{AHEAD}"] - ends["node0"]
    assert abs(ahead - 3_000_000) < 2 * WINDOW_US, f"the clock of one is {ahead} microseconds ahead"
    return bucket
