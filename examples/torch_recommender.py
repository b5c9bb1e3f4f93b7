"""Trains a neural recommender (users, items, did they like it?) with PyTorch and Adam, for a number of seconds (default 20).

Look for: embeddings, which are memory, against matrix products, which are MKL's assembly; and optimizer.step, dear with large tables.
"""
import sys
import time

import torch
from torch import nn

USERS, ITEMS, WIDTH, BATCH = 20_000, 10_000, 64, 4096


class Recommender(nn.Module):
    """A score for each pair of user and item: both embeddings through a small perceptron."""

    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, WIDTH)
        self.items = nn.Embedding(ITEMS, WIDTH)
        self.perceptron = nn.Sequential(
            nn.Linear(2 * WIDTH, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, users, items):
        pairs = torch.cat([self.users(users), self.items(items)], dim=1)
        return self.perceptron(pairs).squeeze(1)


def make_batch():
    liked = torch.randint(0, 2, (BATCH,), dtype=torch.float32)
    return torch.randint(0, USERS, (BATCH,)), torch.randint(0, ITEMS, (BATCH,)), liked


def train_step(model, optimizer):
    users, items, liked = make_batch()
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(users, items), liked)
    loss.backward()
    optimizer.step()
    return loss.item()


def main(seconds):
    torch.manual_seed(1)
    model = Recommender()
    optimizer = torch.optim.Adam(model.parameters())
    end, steps, loss = time.monotonic() + seconds, 0, float("nan")
    while time.monotonic() < end:
        loss = train_step(model, optimizer)
        steps += 1
    print(f"torch_recommender: {steps} steps, last loss {loss:.3f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
