"""A residual network of three stages with two blocks each, on small images."""
import tensorflow as tf
from tensorflow.keras import layers

from work import KINDS

INPUTS = 1


class Block(layers.Layer):
    """Two convolutions and a way around them, which is a convolution where the shape changes."""

    def __init__(self, before, channels, stride):
        super().__init__()
        self.body = tf.keras.Sequential([
            layers.Conv2D(channels, 3, stride, "same", use_bias=False), layers.BatchNormalization(), layers.ReLU(),
            layers.Conv2D(channels, 3, 1, "same", use_bias=False), layers.BatchNormalization(),
        ])
        same = before == channels and stride == 1
        self.around = layers.Identity() if same else layers.Conv2D(channels, 1, stride, use_bias=False)

    def call(self, images, training=False):
        return tf.nn.relu(self.body(images, training=training) + self.around(images))


class Model(tf.keras.Sequential):
    def __init__(self):
        stages = [(16, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        super().__init__([
            layers.Conv2D(16, 3, 1, "same"), *(Block(*stage) for stage in stages),
            layers.GlobalAveragePooling2D(), layers.Dense(KINDS),
        ])


def loss(model, images, kinds):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=kinds, logits=model(images, training=True)))
