"""A translator in the way of GNMT: an encoder of LSTMs, the first in both directions, and a decoder of LSTMs with attention."""
import torch
from torch import nn

from work import WORDS

INPUTS, WIDTH = 2, 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.both_ways = nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
        self.encoder = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.mix, self.next = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        first, _ = self.both_ways(self.words(source))
        second, _ = self.encoder(first)
        encoded = first + second
        decoded, _ = self.decoder(self.words(target))
        attention = (decoded @ encoded.transpose(1, 2)).softmax(-1)
        return self.next(self.mix(torch.cat([decoded, attention @ encoded], dim=-1)).tanh())


def loss(model, source, target, following):
    return nn.functional.cross_entropy(model(source, target).flatten(0, 1), following.flatten())
