"""Runs one generated text after another, each with a file of its own, all of one size: what each is compiled to lies where that of
the last one lay. Arguments: seconds of CPU time of each, how many texts there are, how often all of them run.

A line a run: the text's number, and when it ran, by CLOCK_MONOTONIC in nanoseconds.
"""
import sys
import time

SECONDS, TEXTS, TURNS = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
TEXT = """
end = clock() + {1}
while clock() < end:
    for i in range(200):
        total = i * {0}
"""
TOLD = []


def run(number):
    """All names are gone when it returns."""
    clock = time.process_time
    begin = time.monotonic()
    exec(compile(TEXT.format(100 + number, SECONDS), "/generated/text_{:03}.py".format(number), "exec"), {"clock": clock})
    TOLD.append((number, int(begin * 1e9), int(time.monotonic() * 1e9)))


for _ in range(TURNS):
    for number in range(TEXTS):
        run(number)
for told in TOLD:
    print(*told)
