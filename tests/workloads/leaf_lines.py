"""A function whose samples show how exact the line of the innermost frame is. Runs for argv[1] seconds of CPU time.

`leaf` (of `<leaf>`) has pairs of lines from 4 on: an even one of two instructions, then an odd one that loads 250 variables and makes a tuple
of them. If an interpreter noted its place only at instructions that may fail, the loads would seem to be on the even line. They are that many
because a processor that guesses the two short instructions wrong each time spends as long there as on dozens of loads.
"""
import sys
import time

LINES = ["", "def leaf(a):", " for _ in range(50):", *["  a", "  (" + ", ".join("a" * 250) + ")"] * 50]
names = {}
exec(compile("\n".join(LINES), "<leaf>", "exec"), names)
leaf, end = names["leaf"], time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) + float(sys.argv[1])
while time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID) < end:
    leaf(None)
