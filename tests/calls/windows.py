"""What a program of this folder says of itself: the CPU time of its own calls, by the name that its user knows.

`with call("sklearn.cluster.KMeans.fit"):` takes the process's CPU time before and after, of all its threads, so that the same run has a truth
to compare with. Leaves out what is done with it (`__main__.py`).
"""
import atexit
import collections
import contextlib
import json
import os
import sys
import time

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10
spent = collections.Counter()
made = collections.Counter()


@contextlib.contextmanager
def call(name):
    """A call that the program makes: of this name, for as long as the block runs."""
    before = time.process_time_ns()
    try:
        yield
    finally:
        spent[name] += time.process_time_ns() - before
        made[name] += 1


def going(seconds=SECONDS):
    """Steps, for as many seconds of CPU time as were asked for."""
    end, step = time.process_time() + seconds, 0
    while time.process_time() < end:
        yield step
        step += 1


def _tell():
    if path := os.environ.get("CALLS_WINDOWS"):
        with open(path, "w", encoding="utf-8") as out:
            json.dump({name: [ns, made[name]] for name, ns in spent.items()}, out)


atexit.register(_tell)
