"""Calls and returns all the time, from Python and from C, for argv[1] seconds: samples fall while frames are pushed and popped.

The chains are <module>, main, a, b, c, d and <module>, main, f, e, d; `map` (C) calls b and d, Python calls the others. They alternate, so
that what the first left on the native stack is wrong for the second.
"""
import sys
import time

ITEMS = (1, 2, 3)


def d(item):
    return item


def c():
    return list(map(d, ITEMS))


def b(_):
    return c()


def a():
    return list(map(b, ITEMS))


def e():
    return list(map(d, ITEMS))


def f():
    return e()


def main():
    end = time.process_time() + float(sys.argv[1])
    while time.process_time() < end:
        a()
        f()


main()
