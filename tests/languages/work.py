"""Calls of calls, sorting and text for so many seconds."""
import sys
import time


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def sorting():
    return sorted([i * 7919 % 10007 for i in range(20000)], key=lambda x: -x)[9]


def texts():
    return len("".join("%d," % i for i in range(500)))


end = time.time() + float(sys.argv[1])
total = 0
while time.time() < end:
    total += fib(22) + sorting() + texts()
print(total)
