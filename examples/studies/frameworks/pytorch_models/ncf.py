"""Neural collaborative filtering: the product of two embeddings beside a perceptron over two others, joined for one score."""
import torch
from torch import nn

from work import ITEMS, USERS

INPUTS, WIDTH = 2, 32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, 2 * WIDTH)
        self.items = nn.Embedding(ITEMS, 2 * WIDTH)
        self.perceptron = nn.Sequential(nn.Linear(2 * WIDTH, 128), nn.ReLU(), nn.Linear(128, WIDTH), nn.ReLU())
        self.score = nn.Linear(2 * WIDTH, 1)

    def forward(self, users, items):
        user, item = self.users(users), self.items(items)
        product = user[:, :WIDTH] * item[:, :WIDTH]
        deep = self.perceptron(torch.cat([user[:, WIDTH:], item[:, WIDTH:]], dim=1))
        return self.score(torch.cat([product, deep], dim=1)).squeeze(1)


def loss(model, users, items, liked):
    return nn.functional.binary_cross_entropy_with_logits(model(users, items), liked)
