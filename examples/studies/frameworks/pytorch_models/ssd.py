"""A detector in the way of SSD: a small backbone, then for each box of each cell what it holds, and how the object lies in it."""
from torch import nn

from work import ANCHORS, OBJECTS

INPUTS = 1


def convolution(before, channels, stride):
    return nn.Sequential(nn.Conv2d(before, channels, 3, stride, 1), nn.ReLU())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(convolution(3, 32, 2), convolution(32, 64, 2), convolution(64, 128, 2), convolution(128, 128, 1))
        self.kinds = nn.Conv2d(128, ANCHORS * OBJECTS, 3, 1, 1)
        self.boxes = nn.Conv2d(128, ANCHORS * 4, 3, 1, 1)

    def forward(self, images):
        features = self.backbone(images)
        rows = lambda of, each: of.permute(0, 2, 3, 1).reshape(len(images), -1, each)
        return rows(self.kinds(features), OBJECTS), rows(self.boxes(features), 4)


def loss(model, images, kinds, boxes):
    said_kinds, said_boxes = model(images)
    of_kinds = nn.functional.cross_entropy(said_kinds.flatten(0, 1), kinds.flatten())
    of_boxes = nn.functional.smooth_l1_loss(said_boxes, boxes, reduction="none").sum(-1)
    return of_kinds + (of_boxes * (kinds > 0)).sum() / len(images)
