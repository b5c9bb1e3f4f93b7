"""What a name stands for in this Python's packages: `names.py resolve` reads names and prints those that are nothing with `! ` in front.

Runs in the environment of the recorded program. Leaves out how energy-trace finds names.
"""
import importlib
import sys

SHORT = {"tf": "tensorflow"}
# Names that say what is called, and are no attributes: each with what stands for it.
SAYINGS = {
    "optimizer.step": "torch.optim.Optimizer.step",
    "torch.Tensor.__del__": "torch.Tensor",
    "tf.Tensor.numpy": "tensorflow.__internal__.EagerTensor.numpy",
    "tf.function.__call__": "tensorflow.function",
    "jax.Array.block_until_ready": "jax.Array",
    "tf.Session.run": "tensorflow.compat.v1.Session.run",
    "mxnet.autograd.backward": "mxnet.autograd",
}


def resolve(name):
    """The object of a name; `None` where there is none. `X()` and `f(what)` are X and f."""
    name = SAYINGS.get(name, name).split("(")[0]
    head, *rest = name.split(".")
    head = SHORT.get(head, head)
    if head == "mxnet":
        import numpy
        numpy.bool = bool  # as its program does: MXNet 1.9 is older than the NumPy that it is installed with
    try:
        found = importlib.import_module(head)
    except Exception:  # a package that fails has no names
        return None
    path = head
    for part in rest:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except Exception:
            try:
                found = importlib.import_module(path)
            except Exception:
                return None
    return found


def main():
    for name in sys.stdin.read().splitlines():
        if resolve(name) is None:
            print(f"! {name}")


if __name__ == "__main__":
    main()
