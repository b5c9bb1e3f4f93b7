"""A residual network of three stages with two blocks each, on small images."""
from torch import nn

from work import KINDS

INPUTS = 1


class Block(nn.Module):
    """Two convolutions and a way around them, which is a convolution where the shape changes."""

    def __init__(self, before, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels),
        )
        same = before == channels and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(before, channels, 1, stride, bias=False)

    def forward(self, images):
        return (self.body(images) + self.around(images)).relu()


class Model(nn.Sequential):
    def __init__(self):
        stages = [(16, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        super().__init__(
            nn.Conv2d(3, 16, 3, 1, 1), *(Block(*stage) for stage in stages),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, KINDS),
        )


def loss(model, images, kinds):
    return nn.functional.cross_entropy(model(images), kinds)
