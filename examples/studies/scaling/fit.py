"""Trains one epoch on so many rows, in a framework: fit.py FRAMEWORK ROWS. What is compared is the call `fit`, against the rows."""
import sys

import numpy as np

COLUMNS, WIDTH, KINDS, BATCH = 64, 256, 10, 128


def data(rows):
    random = np.random.default_rng(5)
    table = random.normal(size=(rows, COLUMNS)).astype("float32")
    return table, (table[:, :KINDS]).argmax(axis=1)


def with_tensorflow(table, kinds):
    import keras

    layers = [keras.layers.Dense(WIDTH, "relu"), keras.layers.Dense(WIDTH, "relu"), keras.layers.Dense(KINDS)]
    model = keras.Sequential([keras.Input((COLUMNS,)), *layers])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def fit():
        model.fit(table, kinds, batch_size=BATCH, epochs=1, verbose=0)

    return fit


def with_pytorch(table, kinds):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(COLUMNS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, KINDS))
    rows = torch.utils.data.TensorDataset(torch.from_numpy(table), torch.from_numpy(kinds))
    batches = torch.utils.data.DataLoader(rows, BATCH, shuffle=True)

    def fit():
        optimizer = torch.optim.Adam(model.parameters())
        for columns, kind in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(columns), kind).backward()
            optimizer.step()

    return fit


def main(framework, rows):
    make = {"tensorflow": with_tensorflow, "pytorch": with_pytorch}[framework]
    make(*data(int(rows)))()
    print("calls fit 1")


if __name__ == "__main__":
    main(*sys.argv[1:])
