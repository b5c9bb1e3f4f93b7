"""Runs one generated text after another, each with a file or a function of its own, all of one size: what each is compiled to lies
where that of the last one lay. Arguments: seconds of CPU time of each, how many texts there are, how often all of them run, what
file and function are called, with a place for the text's number, how many threads take turns to run them, each on a CPU of its own, and
`asks` where each has its work done by a thread that it waits for.

A line a run: the text's number, and when it ran, by CLOCK_MONOTONIC in nanoseconds.
"""
import concurrent.futures
import os
import sys
import time

SECONDS, TEXTS, TURNS = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
FILE, NAME = sys.argv[4:6]
TEXT = """
def {2}():
    end = clock() + {1}
{3}
    while clock() < end:
        for i in range(200):
            total = i * {0}
{2}()
"""
LINES = "    end += 0\n" * 100  # Its table of lines has a size that nothing else has.
TOLD = []


def burn():
    clock = lambda: time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)  # Python 3.6 has no thread_time.
    end = clock() + 0.001
    while clock() < end:
        pass


def clock():
    """CPU time so far, after some more."""
    if ASKED:
        ASKED.submit(burn).result()
    return time.process_time()


def run(number):
    """All names are gone when it returns."""
    begin = time.monotonic()
    text = TEXT.format(100 + number, SECONDS, NAME.format(number), LINES)
    names = {"clock": clock}
    exec(compile(text, FILE.format(number), "exec"), names)
    names.clear()  # The function has them, and they have the function.
    TOLD.append((number, int(begin * 1e9), int(time.monotonic() * 1e9)))


ASKED = concurrent.futures.ThreadPoolExecutor(1) if sys.argv[7:] == ["asks"] else None
CPUS = sorted(os.sched_getaffinity(0))[:int(sys.argv[6])]
THREADS = [concurrent.futures.ThreadPoolExecutor(1) for _ in CPUS]
for thread, cpu in zip(THREADS, CPUS):
    thread.submit(os.sched_setaffinity, 0, {cpu}).result()
for _ in range(TURNS):
    for number in range(TEXTS):
        if THREADS:
            THREADS[number % len(THREADS)].submit(run, number).result()
        else:
            run(number)
for told in TOLD:
    print(*told)
