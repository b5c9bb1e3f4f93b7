"""What both frameworks get: sizes, steps and random data with something to learn in it. NumPy alone, so that the data are the same."""
from typing import NamedTuple

import numpy as np

RANDOM = np.random.default_rng(7)
BATCHES = 4  # made before the first step and used in turn


class Work(NamedTuple):
    """Rows of a batch, and steps of a run."""

    rows: int
    train: int
    infer: int


WORK = {
    "ncf": Work(4096, 100, 400),
    "transformer_xl": Work(16, 40, 120),
    "gnmt": Work(32, 30, 90),
    "resnet": Work(32, 25, 75),
    "ssd": Work(16, 40, 160),
    "mask_head": Work(32, 20, 60),
}

USERS, ITEMS = 20_000, 10_000
WORDS, SEGMENT, SENTENCE = 1000, 48, 20
KINDS = 10
CELLS, ANCHORS, OBJECTS = 8, 4, 3  # detection: a grid of cells, boxes for each, kinds of objects (0: none)
CHANNELS, THINGS = 32, 8  # mask head: channels of a region's features, kinds of things


def ncf(rows):
    """Users, items, and whether hidden tastes of both agree."""
    users, items = RANDOM.integers(0, USERS, rows), RANDOM.integers(0, ITEMS, rows)
    return users, items, ((users % 7 - 3) * (items % 5 - 2) > 0).astype("float32")


def transformer_xl(rows):
    """Two segments of words, the second of which goes on where the first ends, and the word after each of the second."""
    start = RANDOM.integers(0, WORDS, (rows, 1))
    words = (start + 3 * np.arange(2 * SEGMENT + 1)) % WORDS
    return words[:, :SEGMENT], words[:, SEGMENT:-1], words[:, SEGMENT + 1:]


def gnmt(rows):
    """Sentences, their translations (words in reverse order) as far as they are known, and the next word of each."""
    source = RANDOM.integers(1, WORDS, (rows, SENTENCE))
    target = source[:, ::-1]
    return source, np.concatenate([np.zeros((rows, 1), "int64"), target[:, :-1]], axis=1), target.copy()


def resnet(rows):
    """Images of 32 × 32 whose kind is a stripe in the noise."""
    kinds = RANDOM.integers(0, KINDS, rows)
    images = RANDOM.normal(size=(rows, 32, 32, 3)).astype("float32")
    images[np.arange(rows), kinds * 3] += 2
    return images, kinds


def ssd(rows):
    """Images of 64 × 64 with a bright square; for each box of each cell what it holds and how the square lies in it."""
    images = RANDOM.normal(size=(rows, 64, 64, 3)).astype("float32")
    kinds = np.zeros((rows, CELLS, CELLS, ANCHORS), "int64")
    boxes = np.zeros((rows, CELLS, CELLS, ANCHORS, 4), "float32")
    for row in range(rows):
        size, kind = RANDOM.integers(1, ANCHORS + 1), RANDOM.integers(1, OBJECTS)
        y, x = RANDOM.integers(0, 64 - 4 * size, 2)
        images[row, y:y + 4 * size, x:x + 4 * size, kind] += 4
        cell = row, y // CELLS, x // CELLS, size - 1
        kinds[cell], boxes[cell] = kind, np.array([y % CELLS, x % CELLS, size, size]) / 8
    return images, kinds.reshape(rows, -1), boxes.reshape(rows, -1, 4)


def mask_head(rows):
    """Features of regions, the kind of thing in each, and its mask at twice the resolution."""
    features = RANDOM.normal(size=(rows, 14, 14, CHANNELS)).astype("float32")
    kinds = RANDOM.integers(0, THINGS, rows)
    masks = features[np.arange(rows), :, :, kinds] > 0
    return features, kinds, masks.repeat(2, axis=1).repeat(2, axis=2).astype("float32")


def batches(model):
    return [globals()[model](WORK[model].rows) for _ in range(BATCHES)]
