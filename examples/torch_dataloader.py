"""Trains a small classifier on images that two worker processes make, for a number of seconds (default 20).

Look for: torch.utils.data.DataLoader (its iterator's __next__), below which the workers' decoding stands, joined by [on behalf of].
"""
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH, SIDE, CLASSES, IMAGES = 32, 48, 10, 2048
BLUR = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16


class Images(Dataset):
    """Random pictures, blurred and normalised: the work that decoding and augmenting is in a real program."""

    def __len__(self):
        return IMAGES

    def __getitem__(self, number):
        random = torch.Generator().manual_seed(number)
        return self.augment(torch.rand(3, 1, SIDE, SIDE, generator=random)), number % CLASSES

    def augment(self, image):
        for _ in range(4):
            image = nn.functional.conv2d(image, BLUR.view(1, 1, 1, 5), padding=(0, 2))
            image = nn.functional.conv2d(image, BLUR.view(1, 1, 5, 1), padding=(2, 0))
        return ((image - image.mean()) / image.std()).view(3, SIDE, SIDE)


def train(model, optimizer, images, labels):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main(seconds):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(CLASSES)
    )
    loader = DataLoader(Images(), BATCH, shuffle=True, num_workers=2)
    model(torch.zeros(1, 3, SIDE, SIDE))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    end, batches = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for images, labels in loader:
            train(model, optimizer, images, labels)
            batches += 1
            if time.monotonic() >= end:
                break
    print(f"torch_dataloader: {batches} batches of {BATCH}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
