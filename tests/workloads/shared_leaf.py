"""The phases of `phases.py`, but all three functions call one and the same function, which does the work: 5, 15 or 40 W by who calls it.

    shared_leaf.py SECONDS [--phase-ms 300] [--rest-ms 0] [--threads 1]
"""

import time

import phases


def work(phase):
    end = time.monotonic() + phase
    x = 1
    while time.monotonic() < end:
        for i in range(1000):
            x = (x * 7 + i) % 1000003
    return x


def five_watts(declaration, phase):
    declaration.enter("five_watts")
    work(phase)
    declaration.leave()


def fifteen_watts(declaration, phase):
    declaration.enter("fifteen_watts")
    work(phase)
    declaration.leave()


def forty_watts(declaration, phase):
    declaration.enter("forty_watts")
    work(phase)
    declaration.leave()


if __name__ == "__main__":
    phases.main((five_watts, fifteen_watts, forty_watts), __doc__)
