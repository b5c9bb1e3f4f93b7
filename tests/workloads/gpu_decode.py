"""A server's decode loop on CUDA: `gpu_decode.py SECONDS ALONE_SECONDS TOKENS_FILE [small]`.

Captures a decode step as a CUDA graph, rests, measures `prefill` and `decode` alone with NVML, prints a line `serving`, and answers requests of one
prefill and 60 to 180 decode steps for SECONDS. TOKENS_FILE holds the tokens decoded so far. Prints what it did as JSON, with the moments
(CLOCK_MONOTONIC, ns) of all that it served. Leaves out sampling, positions and requests that end apart.
"""

import json
import os
import random
import sys
import time

import pynvml
import torch
import torch.nn.functional as F

SMALL = "small" in sys.argv
BATCH, LENGTH, WIDTH, LAYERS, WORDS = (2, 64, 256, 2, 512) if SMALL else (16, 1024, 2048, 12, 32000)
HEADS = WIDTH // 128


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("cache", torch.randn(2, BATCH, HEADS, LENGTH, 128))

    def forward(self, x):
        query, keys, values = (part.unflatten(-1, (HEADS, 128)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if x.shape[1] == 1:
            self.cache[0, :, :, -1:] = keys
            self.cache[1, :, :, -1:] = values
            keys, values = self.cache
        seen = F.scaled_dot_product_attention(query, keys, values, is_causal=x.shape[1] > 1)
        x = x + self.out(seen.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(F.layer_norm(x, (WIDTH,)))))


class Server:
    def __init__(self, tokens_file):
        self.embed = torch.nn.Embedding(WORDS, WIDTH)
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.prompt = torch.randint(WORDS, (BATCH, LENGTH))
        self.token = torch.zeros(BATCH, 1, dtype=torch.long)
        self.done, self.file, self.written = 0, os.open(tokens_file, os.O_CREAT | os.O_WRONLY, 0o644), 0.0
        for _ in range(3):
            self.step()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()
        self.prefill()

    def next_of(self, hidden):
        self.token.copy_((F.layer_norm(hidden[:, -1:], (WIDTH,)) @ self.embed.weight.T).argmax(-1))

    def step(self):
        self.next_of(self.blocks(self.embed(self.token)))

    def prefill(self):
        self.next_of(self.blocks(self.embed(self.prompt)))
        torch.cuda.synchronize()

    def decode(self):
        self.graph.replay()
        words = self.token.tolist()
        self.done += len(words)
        if time.monotonic() > self.written + 0.02:
            os.pwrite(self.file, b"%d\n" % self.done, 0)
            self.written = time.monotonic()


def joules(device):
    return pynvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1e3


def measured(device, seconds, work):
    """What a function draws alone: calls, seconds, joules of the board."""
    end, calls = time.monotonic() + 1, 0
    while time.monotonic() < end:
        work()
    start, before = time.monotonic(), joules(device)
    while time.monotonic() < start + seconds:
        work()
        calls += 1
    after = joules(device)
    return {"calls": calls, "seconds": time.monotonic() - start, "joules": after - before}


def serve(server, seconds):
    """Moments and numbers: (start, end of prefill, end, decode steps) of each request."""
    served, end, chance = [], time.monotonic() + seconds, random.Random(1)
    while time.monotonic() < end:
        start = time.monotonic_ns()
        server.prefill()
        middle, steps = time.monotonic_ns(), chance.randint(60, 180)
        for _ in range(steps):
            server.decode()
        served.append((start, middle, time.monotonic_ns(), steps))
        if chance.random() < 0.1:
            time.sleep(0.4)
    return served


@torch.inference_mode()
def main():
    torch.set_default_device("cuda")
    torch.set_default_dtype(torch.bfloat16)
    seconds, alone = float(sys.argv[1]), float(sys.argv[2])
    server = Server(sys.argv[3])
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    said = {"torch": torch.__version__, "batch": BATCH}
    if alone:
        time.sleep(1)
        said["open"] = measured(device, alone / 2, lambda: time.sleep(0.01))
        said["prefill"] = measured(device, alone, server.prefill)
        said["decode"] = measured(device, alone, server.decode)
    print("serving", flush=True)
    before, tokens = joules(device), server.done
    said["served"] = serve(server, seconds)
    said["joules"], said["tokens"] = joules(device) - before, server.done - tokens
    print(json.dumps(said))


main()
