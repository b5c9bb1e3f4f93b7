"""Runs a PyTorch program that was written for CUDA on the CPU: on_cpu.py PROGRAM [ARGUMENT…].

What names a CUDA device means the CPU; what waits for one does nothing. Packages for NVIDIA's machines get stand-ins: `apex` (its
fused Adam is PyTorch's) and `dllogger` (lines of JSON). The program itself is the authors', unchanged.
"""
import contextlib
import json
import os
import runpy
import sys
import types

import torch
import torch._dynamo  # looks at PyTorch's functions before they are changed here


def stand_in(name, **parts):
    module = types.ModuleType(name)
    module.__dict__.update(parts)
    sys.modules[name] = module
    return module


def log(step=(), data=None, verbosity=None):
    print(json.dumps({"step": step, "data": data}, default=str), flush=True)


def nothing(*_args, **_named):
    return None


def on_cpu(function):
    """A function whose `device` and `map_location` may name CUDA."""

    def call(*args, **named):
        return function(*args, **{key: "cpu" if key in ("device", "map_location") else value for key, value in named.items()})

    return call


def without_cuda():
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *_args, **_named: self
    for name in ("synchronize", "empty_cache", "set_device", "init"):
        setattr(torch.cuda, name, lambda *_args, **_named: None)  # one each: PyTorch's compiler tells functions apart
    torch.cuda.current_device = lambda: 0
    for name in ("randperm", "tensor", "zeros", "ones", "empty", "full", "arange", "load"):
        setattr(torch, name, on_cpu(getattr(torch, name)))
    torch.cuda.amp.autocast = lambda *_args, **_named: contextlib.nullcontext()
    torch.cuda.amp.GradScaler = lambda *_args, **_named: torch.amp.GradScaler("cpu", enabled=False)


def main(program, *arguments):
    apex = stand_in("apex")
    apex.optimizers = stand_in("apex.optimizers", FusedAdam=torch.optim.Adam)
    verbosity = types.SimpleNamespace(DEFAULT=0, VERBOSE=1)
    stand_in("dllogger", init=nothing, metadata=nothing, flush=nothing, log=log, JSONStreamBackend=nothing, StdOutBackend=nothing, Verbosity=verbosity)
    without_cuda()
    sys.argv = [program, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
