"""A loop that keeps step with a clock: `in_step.py LOOP_NS SECONDS`. In every turn `first` runs for 30 % of LOOP_NS and `second` for the rest,
beginning at whole multiples of LOOP_NS of CLOCK_MONOTONIC, the clock of the sampler's timer, for SECONDS of CPU time. At the end it prints
the CPU time of both in ns.
"""

import sys
import time

now, cpu = time.monotonic_ns, time.thread_time_ns


def first(until):
    while now() < until:
        pass


def second(until):
    while now() < until:
        pass


def align(until):
    while now() < until:
        pass


def main(loop_ns, cpu_ns):
    spent = [0, 0]
    while sum(spent) < cpu_ns:
        # Where the machine was away for whole turns, they are not made up for.
        turn = now() // loop_ns + 1
        align(turn * loop_ns)
        begun = cpu()
        first(turn * loop_ns + loop_ns * 3 // 10)
        between = cpu()
        second((turn + 1) * loop_ns - loop_ns // 50)
        spent[0] += between - begun
        spent[1] += cpu() - between
    print(*spent)


main(int(sys.argv[1]), int(float(sys.argv[2]) * 1e9))
