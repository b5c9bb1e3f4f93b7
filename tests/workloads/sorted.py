"""Python that calls C that calls Python: outer, middle, sorted's C code, by_key, leaf. For kernels under an emulator: nothing but builtins."""

import sys
import time


def leaf(count):
    total = 0
    for i in range(count):
        total += i * i
    return total


def by_key(item):
    return leaf(20000) + item


def middle():
    return sorted(range(8), key=by_key)


def outer(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        middle()


outer(float(sys.argv[1]))
