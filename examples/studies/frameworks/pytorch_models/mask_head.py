"""The head of Mask R-CNN that draws masks: four convolutions over the features of a region, one that doubles them, a mask for each kind."""
import torch
from torch import nn

from work import CHANNELS, THINGS

INPUTS = 1


class Model(nn.Sequential):
    def __init__(self):
        body = []
        for before in (CHANNELS, 64, 64, 64):
            body += [nn.Conv2d(before, 64, 3, 1, 1), nn.ReLU()]
        super().__init__(*body, nn.ConvTranspose2d(64, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, THINGS, 1))


def loss(model, features, kinds, masks):
    of_kind = model(features)[torch.arange(len(kinds)), kinds]
    return nn.functional.binary_cross_entropy_with_logits(of_kind, masks)
