"""Runs one generated text after another, each with a file or a function of its own, all of one size: what each is compiled to lies
where that of the last one lay. Arguments: seconds of CPU time of each, how many texts there are, how often all of them run, and what
file and function are called, with a place for the text's number.

A line a run: the text's number, and when it ran, by CLOCK_MONOTONIC in nanoseconds.
"""
import sys
import time

SECONDS, TEXTS, TURNS = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
FILE, NAME = sys.argv[4:]
TEXT = """
def {2}():
    end = clock() + {1}
    while clock() < end:
        for i in range(200):
            total = i * {0}
{2}()
"""
TOLD = []


def run(number):
    """All names are gone when it returns."""
    clock = time.process_time
    begin = time.monotonic()
    text = TEXT.format(100 + number, SECONDS, NAME.format(number))
    exec(compile(text, FILE.format(number), "exec"), {"clock": clock})
    TOLD.append((number, int(begin * 1e9), int(time.monotonic() * 1e9)))


for _ in range(TURNS):
    for number in range(TEXTS):
        run(number)
for told in TOLD:
    print(*told)
