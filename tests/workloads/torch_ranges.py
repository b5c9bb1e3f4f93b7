"""Ranges of known CPU time in PyTorch: `record_function` in `emit_itt`, `emit_nvtx` and by itself, `torch.profiler.itt` and `torch.cuda.nvtx`.

Says at the end how many nanoseconds of CPU time ran in each range. Needs PyTorch.
"""

import time

import torch
from torch.autograd.profiler import emit_itt, emit_nvtx, record_function

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
    # All that `emit_nvtx` needs a GPU for.
    torch.cuda.synchronize = lambda: None
    for _ in range(2):
        with emit_itt(), record_function("step"):
            multiply("PyTorch:step", 0.3)
            with record_function("forward"):
                multiply("PyTorch:step > PyTorch:forward", 0.5)
        with torch.profiler.itt.range("plain"):
            multiply("PyTorch:plain", 0.3)
        with record_function("by itself"):
            multiply("by itself", 0.3)
        with torch.cuda.nvtx.range("nvtx"):
            multiply("nvtx", 0.3)
        with emit_nvtx(), record_function("emitted"):
            multiply("emitted", 0.3)
    for label, ns in truth.items():
        print(ns, label)


if __name__ == "__main__":
    main()
