"""Work on CUDA by one framework: `gpu_frameworks.py jax|cupy|triton|graph SECONDS`. Prints as JSON how many steps. graph: a CUDA graph replayed by PyTorch.

Every step is a function of its own, so that its joules can be told from those of the start. Leaves out the results.
"""

import json
import sys
import time


def jax_step():
    import jax
    import jax.numpy as jnp

    multiply = jax.jit(lambda a, b: jnp.tanh(a @ b))
    a, b = jnp.ones((4096, 4096)), jnp.ones((4096, 4096))

    def step():
        multiply(a, b).block_until_ready()

    return step


def cupy_step():
    import cupy

    a = cupy.random.rand(4096, 4096, dtype=cupy.float32)

    def step():
        cupy.sort(a @ a, axis=1)
        cupy.cuda.Stream.null.synchronize()

    return step


def triton_step():
    import torch
    import triton
    import triton_kernel

    a, b = (torch.rand(1 << 26, device="cuda") for _ in range(2))
    out = torch.empty_like(a)

    def step():
        for _ in range(20):
            triton_kernel.add[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), BLOCK=1024)
        torch.cuda.synchronize()

    return step


def graph_step():
    import torch

    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(4)]).cuda()
    batch = torch.randn(2048, 4096, device="cuda")
    with torch.no_grad():
        model(batch)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(batch)

    def step():
        graph.replay()
        torch.cuda.synchronize()

    return step


def main():
    step = {"jax": jax_step, "cupy": cupy_step, "triton": triton_step, "graph": graph_step}[sys.argv[1]]()
    steps, end = 0, time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        step()
        steps += 1
    print(json.dumps({"steps": steps}))


main()
