"""A PyTorch training on CUDA: `gpu_torch.py SECONDS [profiler]`. Prints as JSON how many steps, and with torch.profiler how many CUDA events it saw."""

import contextlib
import json
import sys
import time

import torch


def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(2048, 4096, device="cuda")
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) if "profiler" in sys.argv else None
    steps, end = 0, time.monotonic() + (min(3, float(sys.argv[1])) if profiler else float(sys.argv[1]))
    with profiler or contextlib.nullcontext():
        while time.monotonic() < end:
            loss = model(batch).square().mean()
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            steps += 1
    events = len(profiler.events()) if profiler else None
    print(json.dumps({"steps": steps, "torch": torch.__version__, "profiler_events": events}))


main()
