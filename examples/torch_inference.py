"""Answers batches of random token sequences with a small transformer encoder in PyTorch, for a number of seconds (default 20).

Look for: nn.Module.forward without any backward beside it, and within it attention against the feed-forward layers.
"""
import sys
import time

import torch
from torch import nn

WORDS, WIDTH, LENGTH, BATCH = 2000, 128, 64, 16


class Tagger(nn.Module):
    """One score per word and class."""

    def __init__(self, classes=8):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, nhead=4, dim_feedforward=4 * WIDTH, batch_first=True)
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.TransformerEncoder(layer, num_layers=3)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens)))


def answer(model, tokens):
    with torch.no_grad():
        return model(tokens).argmax(dim=-1)


def main(seconds):
    torch.manual_seed(1)
    model = Tagger().eval()
    end, batches = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        answer(model, torch.randint(0, WORDS, (BATCH, LENGTH)))
        batches += 1
    print(f"torch_inference: {batches} batches of {BATCH}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
