"""A function whose samples show how exact the line of the innermost frame is. Runs for argv[1] seconds of CPU time.

`leaf` (of `<leaf>`) has pairs of lines from 4 on: an even one of two instructions, then an odd one that loads 28 variables and makes a tuple
of them. If an interpreter noted its place only at instructions that may fail, the loads would seem to be on the even line.
"""
import sys
import time

LINES = ["", "def leaf(a):", " for _ in range(50):", *["  a", "  (" + ", ".join("a" * 28) + ")"] * 200]
names = {}
exec(compile("\n".join(LINES), "<leaf>", "exec"), names)
leaf, end = names["leaf"], time.thread_time() + float(sys.argv[1])
while time.thread_time() < end:
    leaf(None)
