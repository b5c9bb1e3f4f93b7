"""Trains a small residual network on random images with PyTorch, for a number of seconds (default 20).

Look for: torch.autograd.backward, optimizer.step, the forward pass, and make_batch, which is honest work too.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

BATCH = 32


class Residual(nn.Module):
    """Two convolutions around a shortcut; `stride` 2 halves the picture."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels_out)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class Classifier(nn.Module):
    """Three residual blocks and a linear layer over 32 x 32 colour images."""

    def __init__(self, classes=10):
        super().__init__()
        self.blocks = nn.Sequential(Residual(3, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2))
        self.head = nn.Linear(128, classes)

    def forward(self, images):
        return self.head(self.blocks(images).mean(dim=(2, 3)))


def make_batch():
    return torch.randn(BATCH, 3, 32, 32), torch.randint(0, 10, (BATCH,))


def train_step(model, optimizer):
    images, labels = make_batch()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def main(seconds):
    torch.manual_seed(1)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    end, steps, loss = time.monotonic() + seconds, 0, float("nan")
    while time.monotonic() < end:
        loss = train_step(model, optimizer)
        steps += 1
    print(f"torch_training: {steps} steps, last loss {loss:.3f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
