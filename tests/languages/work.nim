# Calls of calls, sorting and text for so many seconds.
import os, strutils, times, algorithm, sequtils
proc fib(n: int): int = (if n < 2: n else: fib(n - 1) + fib(n - 2))
proc sorting(): int = toSeq(0 .. 19999).mapIt(it * 7919 mod 10007).sorted(Descending)[9]
proc texts(): int = toSeq(0 .. 499).mapIt($it).join(",").len
let finish = epochTime() + parseFloat(paramStr(1))
var sum = 0
while epochTime() < finish: sum += fib(22) + sorting() + texts()
echo sum
