"""Infers with a model in one of several runtimes, a batch at a time: infer.py RUNTIME MODEL ROWS.

Prints the inputs that it was given, for `compare`, and a sum of the answers, which is the same for a model and its ONNX file.
"""
import importlib
import sys

import work


def inference(model, batches):
    return sum(float(model(batch).sum()) for batch in batches)


def main(runtime, name, rows):
    module = importlib.import_module(f"{runtime}_models")
    model = module.load(name)
    batches = work.batches(name, int(rows))
    model(batches[0])  # compiles, plans and allocates
    print(f"runtime {module.VERSION}")
    print(f"sum={inference(model, batches):.3f}")
    print(f"calls inference {work.INPUTS[name]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
