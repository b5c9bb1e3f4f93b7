"""Trains a model or infers with it, for a fixed number of steps, in one of two frameworks: run.py FRAMEWORK MODEL train|infer [STEPS].

Prints what it did, for `compare`: the last loss (of training), the steps, and the version of the framework.
"""
import importlib
import sys

import work


def main(framework, model, phase, steps=None):
    loop = importlib.import_module(f"{framework}_loop")
    module = importlib.import_module(f"{framework}_models.{model}")
    steps = int(steps or getattr(work.WORK[model], phase))
    data = [loop.tensors(batch) for batch in work.batches(model)]
    print(f"framework {loop.VERSION}")
    if phase == "train":
        print(f"loss={loop.train(module, data, steps):.4f}")
    else:
        loop.infer(module, data, steps)
    print(f"calls {phase} {steps}")


if __name__ == "__main__":
    main(*sys.argv[1:])
