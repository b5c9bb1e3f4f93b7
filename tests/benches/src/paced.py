"""Runs an example's step for ever and prints, for each round of steps, the clock, this thread's CPU time and the steps done so far.

Started by `cargo xtask bench slowdown` (`paced.rs`): the clock is CLOCK_MONOTONIC, which the benchmark's windows are on too. A line is
one write of a few dozen bytes every few milliseconds, in every window alike.
"""
import sys
import time


def torch_steps():
    import torch

    import torch_training

    # One thread: what is compared is the program's own thread, and OpenMP's waiting would drown it.
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch_training.Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return lambda: torch_training.train_step(model, optimizer)


def python_steps():
    import python_loop

    return python_loop.round_of_work


def main(what, steps_a_line):
    step = {"torch": torch_steps, "python": python_steps}[what]()
    done = 0
    while True:
        for _ in range(steps_a_line):
            step()
        done += steps_a_line
        print(time.monotonic_ns(), time.thread_time_ns(), done, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
