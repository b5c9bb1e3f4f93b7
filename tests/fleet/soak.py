"""An agent beside programs that come and go: 200 a second, of files, functions and containers that are always others; scraped every 100 ms. Its memory
must come to a stand, and every page add up.

Leaves out its CPU time. By itself, `python tests/fleet/soak.py` is those programs.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid

SECONDS = int(os.environ.get("FLEET_SOAK_SECONDS", 420))
MOST_MB, MOST_MB_A_MINUTE = 256, 2.0
A_SECOND = 200
# Of these so many run a while and are sampled, each from a new file in a container of its own, and one is a Python with functions of its own.
SAMPLED = 25
MOVE = 'echo 0 > "$0/cgroup.procs"; exec "$@"'
RUN = "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done"


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

    def container(self, number):
        group = self.made / f"pod{uuid.uuid4()}" / f"c{number}"
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
            return ["/bin/sh", "-c", MOVE, str(self.container(number)), str(file), "-c", RUN]
        return ["/bin/true"]

    def remove(self):
        """The containers that are empty again."""
        for made, group in self.groups[:]:
            if time.monotonic() < made + 2:
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
        time.sleep(3)
        self.remove()
        shutil.rmtree(self.files)
        with contextlib.suppress(OSError):
            self.made.rmdir()
            self.made.parent.rmdir()


def churn():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
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
        self.url, self.over, self.pages, self.wrong, self.most_workloads = url, threading.Event(), 0, [], 0

    def run(self):
        while not self.over.wait(0.1):
            page = urllib.request.urlopen(self.url, timeout=5).read().decode()
            self.pages += 1
            if self.pages % 10 == 0:
                self.add_up(page)

    def add_up(self, page):
        off = {}
        for family, domain, joules, micro in SAMPLE.findall(page):
            uj = int(joules) * 1_000_000 + int(micro)
            off[domain] = off.get(domain, 0) + (uj if family == "domain" else -uj)
        self.wrong += [off for _ in [0] if any(off.values())]
        self.most_workloads = max(self.most_workloads, page.count("energy_trace_workload_joules_total{"))


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


def check(program):
    from agent import Agent

    with Agent(program, window="10s") as agent:
        scraper = Scraper(agent.url())
        programs = subprocess.Popen([sys.executable, __file__])
        try:
            scraper.start()
            points, begun = [], time.monotonic()
            while time.monotonic() < begun + SECONDS:
                time.sleep(5)
                sizes, at = memory_of(agent.process.pid), time.monotonic() - begun
                points.append((at, sum(sizes.values())))
                if len(points) % 6 == 0:
                    parts = ", ".join(f"{name} {mb:.1f}" for name, mb in sorted(sizes.items()))
                    print(f"{at:5.0f} s: {points[-1][1]:6.1f} MB ({parts})", flush=True)
        finally:
            programs.send_signal(signal.SIGINT)
            programs.wait()
        alive = scraper.is_alive()
        scraper.over.set()
        windows = agent.end()[0]
    most, late = max(mb for _, mb in points), points[len(points) // 2 :]
    print(f"soak: {windows} windows, at most {most:.0f} MB, in the second half {slope(late):+.2f} MB a minute", flush=True)
    print(f"{scraper.pages} pages, at most {scraper.most_workloads} workloads, {len(scraper.wrong)} do not add up", flush=True)
    assert alive and scraper.pages > 5 * SECONDS and not scraper.wrong, scraper.wrong[:3]
    assert most < MOST_MB and slope(late) < MOST_MB_A_MINUTE, "memory grows"


if __name__ == "__main__":
    churn()
