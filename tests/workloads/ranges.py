"""Ranges of known energy by the real packages: NVTX's `nvtx`, and Intel's `ittapi` where it is there. Nested, overlapping, on two threads.

    ranges.py ROUNDS

Declares its power to the simulator as phases.py does, and says at the end how many microjoules of CPU time ran in each range. Needs the package
nvtx.
"""

import os
import sys
import threading
import time

import nvtx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from phases import Declaration, fifteen_watts, five_watts, forty_watts

MS = 0.001
WATTS = {forty_watts: 40, fifteen_watts: 15, five_watts: 5}
truth = {}


def spend(label, function, declaration, seconds):
    begin = time.thread_time_ns()
    function(declaration, seconds)
    truth[label] = truth.get(label, 0) + WATTS[function] * (time.thread_time_ns() - begin) // 1000


def train(rounds):
    declaration = Declaration()
    for _ in range(rounds):
        with nvtx.annotate("step", domain="train"):
            with nvtx.annotate("forward", color="red"):
                spend("train:step > forward", forty_watts, declaration, 300 * MS)
            with nvtx.annotate("backward", category="heavy"):
                spend("train:step > backward", fifteen_watts, declaration, 400 * MS)
            spend("train:step", five_watts, declaration, 200 * MS)
        five_watts(declaration, 100 * MS)


def load(rounds, handed_over, ended):
    declaration = Declaration()
    for _ in range(rounds):
        read = nvtx.start_range(message="read", domain="loader")
        spend("loader:read", forty_watts, declaration, 100 * MS)
        decode = nvtx.start_range(message="decode")
        spend("loader:read > decode", fifteen_watts, declaration, 200 * MS)
        handed_over.append(read)
        ended.wait()
        ended.wait()
        spend("decode", forty_watts, declaration, 300 * MS)
        nvtx.end_range(decode)
        five_watts(declaration, 100 * MS)


def end(rounds, handed_over, ended):
    for _ in range(rounds):
        ended.wait()
        nvtx.end_range(handed_over.pop())
        ended.wait()


def main():
    rounds = int(sys.argv[1])
    handed_over, ended = [], threading.Barrier(2)
    arguments = (rounds, handed_over, ended)
    # One after the other: they share the interpreter lock.
    train(rounds)
    others = [threading.Thread(target=run, args=arguments) for run in (load, end)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    for label, uj in truth.items():
        print(uj, label)


if __name__ == "__main__":
    main()
