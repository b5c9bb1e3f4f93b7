"""The head of Mask R-CNN that draws masks: four convolutions over the features of a region, one that doubles them, a mask for each kind."""
import tensorflow as tf
from tensorflow.keras import layers

from work import THINGS

INPUTS = 1


class Model(tf.keras.Sequential):
    def __init__(self):
        body = [layers.Conv2D(64, 3, 1, "same", activation="relu") for _ in range(4)]
        super().__init__([*body, layers.Conv2DTranspose(64, 2, 2, activation="relu"), layers.Conv2D(THINGS, 1)])


def loss(model, features, kinds, masks):
    of_kind = tf.gather(model(features), kinds, axis=3, batch_dims=1)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=masks, logits=of_kind))
