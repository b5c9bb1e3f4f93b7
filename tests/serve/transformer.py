"""Trains a small language model, random weights and tokens, 4 s of it and 2 s of evaluation by turns, for so many seconds: `transformer.py SECONDS`.

Prints when each turn began, in seconds since 1970, and at the end its steps. Marks nothing.
"""

import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 1024}


def batch():
    return torch.randint(0, SIZES["vocab_size"], (8, 64))


def train_step(model, optimizer):
    optimizer.zero_grad()
    tokens = batch()
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()


def evaluate(model, seconds):
    model.eval()
    end = time.monotonic() + seconds
    with torch.inference_mode():
        while time.monotonic() < end:
            tokens = batch()
            model(input_ids=tokens, labels=tokens)
    model.train()


def main(seconds):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    # What stands in for NVIDIA's libraries (`xtask/src/torch_stubs.rs`) does not survive the question.
    torch.cuda.is_current_stream_capturing = lambda: False
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    optimizer = torch.optim.AdamW(model.parameters())
    end, steps = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        print("train", time.time())
        turn = time.monotonic() + 4
        while time.monotonic() < turn:
            train_step(model, optimizer)
            steps += 1
        print("evaluate", time.time())
        evaluate(model, 2)
    print("end", time.time())
    print(f"transformer: {steps} steps")


main(float(sys.argv[1]))
