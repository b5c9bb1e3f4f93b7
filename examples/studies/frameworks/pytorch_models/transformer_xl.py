"""Two blocks in the way of Transformer-XL: a segment attends to itself and to the segment before, by relative positions."""
import torch
from torch import nn

from work import SEGMENT, WORDS

INPUTS, WIDTH, HEADS, BLOCKS = 2, 128, 4, 2


def positions():
    """A row for each distance, the largest first: as far back as the start of the segment before."""
    distances = torch.arange(2 * SEGMENT - 1, -1, -1.0)
    angles = distances[:, None] / 10_000 ** (torch.arange(0, WIDTH, 2.0) / WIDTH)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def shift(scores):
    """Moves row i by i, so that columns are keys and no longer distances."""
    batch, heads, queries, keys = scores.shape
    padded = nn.functional.pad(scores, (1, 0)).reshape(batch, heads, keys + 1, queries)
    return padded[:, :, 1:].reshape(batch, heads, queries, keys)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key_value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.position, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.content_bias = nn.Parameter(torch.zeros(HEADS, 1, WIDTH // HEADS))
        self.position_bias = nn.Parameter(torch.zeros(HEADS, 1, WIDTH // HEADS))
        self.dense = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    def forward(self, now, before, position):
        split = lambda of: of.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(-3, -2)
        query = split(self.query(now))
        key, value = (split(of) for of in self.key_value(torch.cat([before, now], dim=1)).chunk(2, dim=-1))
        content = (query + self.content_bias) @ key.transpose(-2, -1)
        relative = shift((query + self.position_bias) @ split(self.position(position)).transpose(-2, -1))
        ahead = torch.ones(SEGMENT, 2 * SEGMENT, dtype=torch.bool, device=now.device).triu(SEGMENT + 1)
        scores = ((content + relative) / (WIDTH // HEADS) ** 0.5).masked_fill(ahead, -1e9)
        mixed = (scores.softmax(-1) @ value).transpose(-3, -2).flatten(-2)
        now = self.norms[0](now + self.out(mixed))
        return self.norms[1](now + self.dense(now))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.next = nn.Linear(WIDTH, WORDS)
        self.register_buffer("positions", positions())

    def forward(self, before, now):
        before, now = self.words(before), self.words(now)
        for block in self.blocks:
            with torch.no_grad():  # what is remembered learns nothing
                after = block(before, torch.zeros_like(before), self.positions)
            before, now = after, block(now, before.detach(), self.positions)
        return self.next(now)


def loss(model, before, now, following):
    return nn.functional.cross_entropy(model(before, now).flatten(0, 1), following.flatten())
