"""An agent beside programs that come and go: 200 a second, of files, functions and containers that are always others; scraped every 100 ms. Its memory
must come to a stand, and every page add up. `day` has as many windows as a day, of a second each, with a small spool and a collector.

Leaves out its CPU time. By itself, `python tests/fleet/soak.py` is those programs.
"""
import contextlib
import http.server
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

SECONDS = 420
# As many windows as a day has minutes.
DAY = 1_440
MOST_MB, MOST_MB_A_MINUTE = 256, 2.0
# Of the page: workloads with series of their own, and those that are nobody's.
MOST_WORKLOADS = 2_000 + 2
# Of a day's spool.
SPOOL_MIB = 8
A_SECOND = 200
# Of these so many run a while and are sampled, each from a new file in a container of its own, and one is a Python with functions of its own.
SAMPLED = 25
MOVE = 'echo 0 > "$0/cgroup.procs"; exec "$@"'
# Who has ended within a second counts for its parent's container.
RUN = "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; exec sleep 2"
LIVES_S = 5


def containers():
    """A folder for control groups of the second version."""
    lines = pathlib.Path("/proc/mounts").read_text().splitlines()
    mount = next(line.split()[1] for line in lines if line.split()[2] == "cgroup2")
    return pathlib.Path(mount) / "kubepods/burstable"


class Churn:
    """Programs that come and go, until this process is interrupted."""

    def __init__(self):
        self.files, self.groups, self.made = pathlib.Path(tempfile.mkdtemp(prefix="churn")), [], containers()
        self.containers = 0

    def container(self):
        group = self.made / f"pod{uuid.uuid4()}" / secrets.token_hex(32)
        group.mkdir(parents=True)
        self.groups.append((time.monotonic(), group))
        self.containers += 1
        return group

    def words(self, number):
        if number % A_SECOND == 0:
            functions = "\n".join(f"def f{number}_{part}(): return sum(i * i for i in range(20_000))" for part in range(20))
            calls = "; ".join(f"f{number}_{part}()" for part in range(20))
            return ["/usr/bin/python3", "-S", "-c", f"{functions}\n{calls}"]
        if number % (A_SECOND // SAMPLED) == 0:
            file = self.files / f"shell{number % 400}"
            file.unlink(missing_ok=True)
            shutil.copy("/bin/sh", file)
            return ["/bin/sh", "-c", MOVE, str(self.container()), str(file), "-c", RUN]
        return ["/bin/true"]

    def remove(self):
        """The containers that are empty again."""
        for made, group in self.groups[:]:
            if time.monotonic() < made + LIVES_S:
                break
            with contextlib.suppress(OSError):
                group.rmdir()
                group.parent.rmdir()
                self.groups.remove((made, group))

    def run(self):
        number, begun = 0, time.monotonic()
        while True:
            number += 1
            words = self.words(number)
            os.posix_spawn(words[0], words, {})
            if number % A_SECOND == 0:
                self.remove()
            time.sleep(max(0.0, begun + number / A_SECOND - time.monotonic()))

    def end(self):
        print(f"churn: {self.containers} containers", flush=True)
        time.sleep(LIVES_S)
        self.remove()
        shutil.rmtree(self.files)
        with contextlib.suppress(OSError):
            self.made.rmdir()
            self.made.parent.rmdir()


def churn():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # A shell's background job ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    of = Churn()
    try:
        of.run()
    except KeyboardInterrupt:
        of.end()


SAMPLE = re.compile(r'^energy_trace_(domain|workload|ended|ledger)_joules_total\{domain="([^"]*)".*\} (\d+)\.(\d{6})$', re.M)


class Scraper(threading.Thread):
    """Asks every 100 ms; every tenth page is added up."""

    def __init__(self, url):
        super().__init__(daemon=True)
        self.url, self.over, self.pages, self.wrong, self.most_workloads, self.bytes = url, threading.Event(), 0, [], 0, 0

    def run(self):
        while not self.over.wait(0.1):
            page = urllib.request.urlopen(self.url, timeout=5).read().decode()
            self.pages += 1
            self.bytes = max(self.bytes, len(page))
            if self.pages % 10 == 0:
                self.add_up(page)

    def add_up(self, page):
        off, workloads = {}, {}
        for family, domain, joules, micro in SAMPLE.findall(page):
            uj = int(joules) * 1_000_000 + int(micro)
            off[domain] = off.get(domain, 0) + (uj if family == "domain" else -uj)
            workloads[domain] = workloads.get(domain, 0) + (family == "workload")
        self.wrong += [off for _ in [0] if any(off.values())]
        self.most_workloads = max([self.most_workloads, *workloads.values()])


class Collector(http.server.ThreadingHTTPServer):
    """Takes every profile and keeps none."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), TakesAll)
        self.url, self.messages, self.bytes = f"http://127.0.0.1:{self.server_port}", 0, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()


class TakesAll(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bytes += len(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.messages += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def processes_of(pid):
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found


def memory_of(pid):
    """Megabytes of each of the agent's processes; what they share is a part of each."""
    sizes = {}
    for process in processes_of(pid):
        try:
            name = pathlib.Path(f"/proc/{process}/comm").read_text().strip()
            lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        [kib] = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
        sizes[name] = sizes.get(name, 0) + kib / 1024
    return sizes


def slope(points):
    """Least squares, by minute."""
    xs, ys = [at / 60 for at, _ in points], [mb for _, mb in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / sum((a - x) ** 2 for a in xs)


def watch(agent, seconds):
    """Memory of the agent's processes every five seconds, beside programs that come and go; how many containers there were."""
    programs = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    points, begun = [], time.monotonic()
    try:
        while time.monotonic() < begun + seconds:
            time.sleep(5)
            points.append((time.monotonic() - begun, memory_of(agent.process.pid)))
            if len(points) % 6 == 0:
                print(f"{points[-1][0]:5.0f} s: {words_of(points[-1][1])}", flush=True)
    finally:
        programs.send_signal(signal.SIGINT)
        said = programs.communicate()[0]
    return points, int(re.search(r"(\d+) containers", said)[1])


def words_of(sizes):
    parts = ", ".join(f"{name} {mb:.1f}" for name, mb in sorted(sizes.items()))
    return f"{sum(sizes.values()):6.1f} MB ({parts})"


def mean_of(points):
    """Of each process."""
    names = {name for _, sizes in points for name in sizes}
    return {name: sum(sizes.get(name, 0) for _, sizes in points) / len(points) for name in names}


def soak(agent, seconds, enough):
    """Ends the agent; what it was measured with, in order of time."""
    scraper = Scraper(agent.url())
    scraper.start()
    points, containers = watch(agent, seconds)
    alive = scraper.is_alive()
    scraper.over.set()
    windows, removed, sent, dropped = agent.end()
    most = max(sum(sizes.values()) for _, sizes in points)
    late = slope([(at, sum(sizes.values())) for at, sizes in points[len(points) // 2 :]])
    print(f"soak: {windows} windows, {containers} containers, at most {most:.0f} MB, in the second half {late:+.2f} MB a minute", flush=True)
    print(f"spool: {removed} windows removed; collector: {sent} sent, {dropped} dropped", flush=True)
    pages = f"{scraper.pages} pages, at most {scraper.bytes} bytes and {scraper.most_workloads} workloads a domain"
    print(f"{pages}, {len(scraper.wrong)} do not add up", flush=True)
    assert alive and scraper.pages > 5 * seconds and not scraper.wrong, scraper.wrong[:3]
    assert containers >= enough and 100 < scraper.most_workloads <= MOST_WORKLOADS, (containers, scraper.most_workloads)
    assert most < MOST_MB and late < MOST_MB_A_MINUTE, "memory grows"
    return windows, points


def check(program):
    from agent import Agent

    with Agent(program, window="10s") as agent:
        soak(agent, SECONDS, enough=10_000)


def day(program):
    """Memory in the last quarter beside that in the first."""
    from agent import Agent

    collector = Collector()
    with Agent(program, collector.url, window="1s", more=["--spool-mib", str(SPOOL_MIB)]) as agent:
        windows, points = soak(agent, DAY, enough=10_000)
        spool = sum(file.stat().st_size for file in pathlib.Path(agent.spool).rglob("*.parquet"))
    quarter = len(points) // 4
    first, last = mean_of(points[:quarter]), mean_of(points[-quarter:])
    print(f"first quarter {words_of(first)}\n last quarter {words_of(last)}", flush=True)
    print(f"{spool} bytes in the spool, {collector.bytes} in {collector.messages} messages", flush=True)
    assert windows >= DAY - 5 and collector.messages >= windows - 5, (windows, collector.messages)
    assert spool <= SPOOL_MIB << 20, spool
    assert sum(last.values()) < 1.1 * sum(first.values()), "memory grows"


if __name__ == "__main__":
    churn()
