"""A program that knows its own stacks: each region spins in `spin` and has told the file argv[1] which frames are above it.

One JSON line a region: {"region": name, "frames": [[name, line], ...] outermost first, "called_from_c": [name, ...] or null} where null
means that it differs between versions. Names are qualified from 3.11 on, as far as code objects know their own.
"""
import asyncio
import ctypes
import functools
import json
import os
import signal
import sys
import threading
import time

OUT = open(sys.argv[1], "w")
SECONDS = float(sys.argv[2])
LOCK = threading.Lock()
TOLD = set()


def spin():
    """The innermost frame of every region; its own line is not compared."""
    end = time.thread_time() + SECONDS
    total = 0
    while time.thread_time() < end:
        for i in range(200):
            total += i * i
    return total


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def tell(region, called_from_c):
    """Writes the frames above the caller of `tell`, by the interpreter's own word. The next line of the caller is the one that spins."""
    frame, frames = sys._getframe(1), []
    while frame is not None:
        frames.append([name_of(frame.f_code), frame.f_lineno])
        frame = frame.f_back
    frames[0][1] += 1  # The spin stands on the line below the call of tell.
    frames.reverse()
    if called_from_c is not None and sys.version_info < (3, 11):
        # Every function is called from C: by the one that evaluates its caller.
        called_from_c = [name for name, _ in frames]
    with LOCK:
        if region not in TOLD:
            TOLD.add(region)
            OUT.write(json.dumps({"region": region, "frames": frames, "called_from_c": called_from_c}) + "\n")
            OUT.flush()


class Class:
    def method(self, region, called_from_c):
        tell(region, called_from_c)
        spin()

    @staticmethod
    def static(region):
        Class().method(region, [])


def plain():
    Class.static("plain")


def sorted_key():
    def key(_):
        tell("sorted key", ["sorted_key.<locals>.key"])
        spin()
        return 0
    sorted([1], key=key)


def reduced():
    def add(_a, _b):
        tell("reduce", ["reduced.<locals>.add"])
        spin()
    functools.reduce(add, [1, 2])


def generated():
    def items():
        tell("generator in list", ["generated.<locals>.items"])
        spin()
        yield 1
    list(items())


def delegated():
    def inner():
        tell("yield from", None)
        spin()
        yield 1

    def outer():
        yield from inner()
    for _ in outer():
        pass


def ctypes_callback():
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    def compare(_a, _b):
        tell("ctypes callback", ["ctypes_callback.<locals>.compare"])
        spin()
        return 0
    values = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(values, 2, 4, compare)


def recursive(depth):
    if depth:
        return recursive(depth - 1)
    tell("deep recursion", [])
    return spin()


def nested_c(depth):
    if depth == 0:
        tell("nested C calls", None)
        spin()
    else:
        list(map(nested_c, [depth - 1]))


def raising():
    try:
        raise ValueError("in flight")
    except ValueError:
        tell("exception in flight", [])
        spin()


def in_thread():
    def work():
        tell("thread", None)
        spin()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_four_threads():
    def work():
        tell("four threads", None)
        spin()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def awaited():
    async def inner():
        tell("awaited", None)
        spin()

    async def outer():
        await asyncio.sleep(0)
        await inner()
    asyncio.run(outer())


def signalled():
    def handler(_number, _frame):
        tell("signal handler", None)
        spin()
    signal.signal(signal.SIGUSR1, handler)
    os.kill(os.getpid(), signal.SIGUSR1)


def deleted():
    class Deleted:
        def __del__(self):
            tell("finalizer", None)
            spin()
    Deleted()


def class_body():
    class Body:
        tell("class body", None)
        spin()
    return Body


def thrown_into():
    def items():
        try:
            yield 1
        except ValueError:
            tell("exception thrown into a generator", None)
            spin()
            yield 2
    generator = items()
    next(generator)
    generator.throw(ValueError())


def grüße():
    tell("name beyond ASCII", [])
    spin()


def main():
    for region in (plain, sorted_key, reduced, generated, delegated, ctypes_callback, lambda: recursive(200),
                   lambda: nested_c(4), raising, in_thread, in_four_threads, awaited, signalled, deleted, class_body, thrown_into,
                   grüße):
        region()


main()
