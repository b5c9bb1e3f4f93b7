"""Ranges of known CPU time in PyTorch: `record_function` in `emit_itt`, by itself, and `torch.profiler.itt`.

Says at the end how many nanoseconds of CPU time ran in each range. Needs PyTorch.
"""

import time

import torch
from torch.autograd.profiler import emit_itt, record_function

truth = {}


def multiply(label, seconds):
    """For so much CPU time of this thread."""
    begin = time.thread_time_ns()
    x = torch.ones(64, 64)
    while time.thread_time_ns() < begin + seconds * 1e9:
        x = torch.mm(x, x) * 1e-3
    truth[label] = truth.get(label, 0) + time.thread_time_ns() - begin


def main():
    torch.set_num_threads(1)
    for _ in range(2):
        with emit_itt(), record_function("step"):
            multiply("step", 0.3)
            with record_function("forward"):
                multiply("step > forward", 0.5)
        with torch.profiler.itt.range("plain"):
            multiply("plain", 0.3)
        with record_function("by itself"):
            multiply("[outside of ranges]", 0.3)
    for label, ns in truth.items():
        print(ns, label)


if __name__ == "__main__":
    main()
