"""A small convolutional network whose layers the program calls itself: each layer's class is to be seen, the convolution's above all."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import torch
from torch import nn
from windows import call, going


class Net(nn.Module):
    """Convolution, pooling, and a layer for the answer."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(16, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(4)
        self.answer = nn.Linear(64 * 8 * 8, 512)

    def forward(self, images):
        with call("torch.nn.Conv2d.__call__"):
            images = self.convolution(images)
        with call("torch.nn.MaxPool2d.__call__"):
            images = self.pool(images)
        with call("torch.nn.Linear.__call__"):
            return self.answer(images.flatten(1))


net = Net()
images = torch.rand(32, 16, 32, 32)
with torch.no_grad():
    for _ in going():
        net(images)
