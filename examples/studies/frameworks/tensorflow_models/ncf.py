"""Neural collaborative filtering: the product of two embeddings beside a perceptron over two others, joined for one score."""
import tensorflow as tf
from tensorflow.keras import layers

from work import ITEMS, USERS

INPUTS, WIDTH = 2, 32


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.users = layers.Embedding(USERS, 2 * WIDTH)
        self.items = layers.Embedding(ITEMS, 2 * WIDTH)
        self.perceptron = tf.keras.Sequential([layers.Dense(128, "relu"), layers.Dense(WIDTH, "relu")])
        self.score = layers.Dense(1)

    def call(self, users, items):
        user, item = self.users(users), self.items(items)
        product = user[:, :WIDTH] * item[:, :WIDTH]
        deep = self.perceptron(tf.concat([user[:, WIDTH:], item[:, WIDTH:]], axis=1))
        return tf.squeeze(self.score(tf.concat([product, deep], axis=1)), axis=1)


def loss(model, users, items, liked):
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=liked, logits=model(users, items)))
