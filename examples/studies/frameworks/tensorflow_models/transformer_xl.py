"""Two blocks in the way of Transformer-XL: a segment attends to itself and to the segment before, by relative positions."""
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

from work import SEGMENT, WORDS

INPUTS, WIDTH, HEADS, BLOCKS = 2, 128, 4, 2


def positions():
    """A row for each distance, the largest first: as far back as the start of the segment before."""
    distances = np.arange(2 * SEGMENT - 1, -1, -1.0)
    angles = distances[:, None] / 10_000 ** (np.arange(0, WIDTH, 2.0) / WIDTH)
    return tf.constant(np.concatenate([np.sin(angles), np.cos(angles)], axis=1), tf.float32)


def shift(scores):
    """Moves row i by i, so that columns are keys and no longer distances."""
    batch, heads, queries, keys = scores.shape
    padded = tf.reshape(tf.pad(scores, [[0, 0], [0, 0], [0, 0], [1, 0]]), (batch, heads, keys + 1, queries))
    return tf.reshape(padded[:, :, 1:], (batch, heads, queries, keys))


def split(of):
    """(…, words, width) to (…, heads, words, width of a head)."""
    heads = tf.reshape(of, (*of.shape[:-1], HEADS, WIDTH // HEADS))
    return tf.einsum("...whd->...hwd", heads)


class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.query, self.key_value = layers.Dense(WIDTH), layers.Dense(2 * WIDTH)
        self.position, self.out = layers.Dense(WIDTH), layers.Dense(WIDTH)
        self.content_bias = self.add_weight(shape=(HEADS, 1, WIDTH // HEADS), initializer="zeros")
        self.position_bias = self.add_weight(shape=(HEADS, 1, WIDTH // HEADS), initializer="zeros")
        self.dense = tf.keras.Sequential([layers.Dense(4 * WIDTH, "relu"), layers.Dense(WIDTH)])
        self.norms = [layers.LayerNormalization(), layers.LayerNormalization()]

    def call(self, now, before, position):
        query = split(self.query(now))
        key, value = (split(of) for of in tf.split(self.key_value(tf.concat([before, now], axis=1)), 2, axis=-1))
        content = tf.matmul(query + self.content_bias, key, transpose_b=True)
        relative = shift(tf.matmul(query + self.position_bias, split(self.position(position)), transpose_b=True))
        ahead = np.triu(np.ones((SEGMENT, 2 * SEGMENT), "float32"), SEGMENT + 1)
        scores = (content + relative) / (WIDTH // HEADS) ** 0.5 - 1e9 * ahead
        mixed = tf.einsum("bhwd->bwhd", tf.matmul(tf.nn.softmax(scores), value))
        now = self.norms[0](now + self.out(tf.reshape(mixed, now.shape)))
        return self.norms[1](now + self.dense(now))


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(WORDS, WIDTH)
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.next = layers.Dense(WORDS)
        self.positions = positions()

    def call(self, before, now):
        before, now = self.words(before), self.words(now)
        for block in self.blocks:
            after = tf.stop_gradient(block(before, tf.zeros_like(before), self.positions))  # what is remembered learns nothing
            before, now = after, block(now, tf.stop_gradient(before), self.positions)
        return self.next(now)


def loss(model, before, now, following):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=model(before, now)))
