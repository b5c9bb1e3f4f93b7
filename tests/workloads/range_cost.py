"""Nanoseconds of a range in Python, of each of some rounds: `range_cost.py range` of energy_trace, `range_cost.py record_function` of PyTorch, or of
its stand-in where there is none.
"""

import os
import sys
import timeit


def main():
    if sys.argv[1] == "range":
        from energy_trace import range as kind
    else:
        sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_stub"))
        from torch.autograd.profiler import record_function as kind

    def marked():
        with kind("range"):
            pass

    for taken in timeit.repeat(marked, number=20000, repeat=9):
        print(taken / 20000 * 1e9)


if __name__ == "__main__":
    main()
