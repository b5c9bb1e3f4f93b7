"""Functions that `energy_trace.range` decorates, called so often: `decorated.py CALLS`. Needs the package energy_trace."""

import sys
import time

import energy_trace


@energy_trace.range("decode")
def decode():
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass


for _ in range(int(sys.argv[1])):
    decode()
