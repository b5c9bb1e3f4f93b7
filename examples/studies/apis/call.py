"""Calls each API of a list in a loop, long enough to be sampled, and prints how often: call.py FRAMEWORK LIST NUMBERS.

A line of the list is a call: `torch.matmul(square, square)`. Its arguments hold so many numbers each. The loop of each API runs under
the API's own name, which is how its energy, with that of all threads that work for it, is told from the others'.
"""
import math
import sys
import time
import types

import numpy as np

SECONDS = 0.2  # of CPU time, at the least


def arguments(numbers):
    """Arguments of a call, by the names that lists have for them."""
    side, random = math.isqrt(numbers), np.random.default_rng(2)
    square = random.uniform(0.1, 0.9, (side, side)).astype("float32")
    return {
        "square": square, "row": square.ravel(), "column": square[:, 0].copy(), "image": square.reshape(1, side, side, 1),
        "steady": square @ square.T + side * np.eye(side, dtype="float32"),  # symmetric, all eigenvalues above zero
        "images": square.reshape(1, side // 2, side // 2, 4), "filter": random.normal(size=(3, 3, 4, 4)).astype("float32"),
        "places": random.integers(0, side, (side, side)), "place": random.integers(0, side, side), "yes": square > 0.5, "side": side,
    }


def pytorch(numbers):
    import torch

    given = {name: torch.from_numpy(of) if isinstance(of, np.ndarray) else of for name, of in arguments(numbers).items()}
    for name in ("image", "images"):
        given[name] = given[name].permute(0, 3, 1, 2).contiguous()
    given["filter"] = given["filter"].permute(3, 2, 0, 1).contiguous()
    print(f"framework torch {torch.__version__}")
    return {"torch": torch, "F": torch.nn.functional, **given}


def tensorflow(numbers):
    import tensorflow as tf

    given = {name: tf.constant(of) if isinstance(of, np.ndarray) else of for name, of in arguments(numbers).items()}
    print(f"framework tensorflow {tf.__version__}")
    return {"tf": tf, **given}


def calls(file, names):
    """Each line's name, and a function that makes its call."""
    for line in open(file):
        if line.strip() and not line.startswith("#"):
            yield line.split("(")[0].replace("F.", "torch.nn.functional."), eval(f"lambda: {line}", names)


def loop_of(name):
    """A loop that has the API's name in recordings."""

    def loop(call, count):
        for _ in range(count):
            call()

    return types.FunctionType(loop.__code__.replace(co_name=name, co_qualname=name), globals(), name)


def main(framework, file, numbers):
    names = {"pytorch": pytorch, "tensorflow": tensorflow}[framework](int(numbers))
    for name, call in calls(file, names):
        call()  # builds what is kept
        loop, start, made, count = loop_of(name), time.process_time(), 0, 1
        while time.process_time() - start < SECONDS:
            loop(call, count)
            made, count = made + count, 2 * count
        print(f"calls {name} {made}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
