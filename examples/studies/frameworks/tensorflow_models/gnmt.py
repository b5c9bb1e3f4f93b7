"""A translator in the way of GNMT: an encoder of LSTMs, the first in both directions, and a decoder of LSTMs with attention."""
import tensorflow as tf
from tensorflow.keras import layers

from work import WORDS

INPUTS, WIDTH = 2, 128


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.words = layers.Embedding(WORDS, WIDTH)
        self.both_ways = layers.Bidirectional(layers.LSTM(WIDTH // 2, return_sequences=True))
        self.encoder = layers.LSTM(WIDTH, return_sequences=True)
        self.decoder = tf.keras.Sequential([layers.LSTM(WIDTH, return_sequences=True) for _ in range(2)])
        self.mix, self.next = layers.Dense(WIDTH, "tanh"), layers.Dense(WORDS)

    def call(self, source, target):
        first = self.both_ways(self.words(source))
        encoded = first + self.encoder(first)
        decoded = self.decoder(self.words(target))
        attention = tf.nn.softmax(tf.matmul(decoded, encoded, transpose_b=True))
        return self.next(self.mix(tf.concat([decoded, tf.matmul(attention, encoded)], axis=-1)))


def loss(model, source, target, following):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=model(source, target)))
