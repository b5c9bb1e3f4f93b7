"""A detector in the way of SSD: a small backbone, then for each box of each cell what it holds, and how the object lies in it."""
import tensorflow as tf
from tensorflow.keras import layers

from work import ANCHORS, OBJECTS

INPUTS = 1


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        stages = [(32, 2), (64, 2), (128, 2), (128, 1)]
        self.backbone = tf.keras.Sequential([layers.Conv2D(channels, 3, stride, "same", activation="relu") for channels, stride in stages])
        self.kinds = layers.Conv2D(ANCHORS * OBJECTS, 3, 1, "same")
        self.boxes = layers.Conv2D(ANCHORS * 4, 3, 1, "same")

    def call(self, images):
        features = self.backbone(images)
        rows = lambda of, each: tf.reshape(of, (images.shape[0], -1, each))
        return rows(self.kinds(features), OBJECTS), rows(self.boxes(features), 4)


def loss(model, images, kinds, boxes):
    said_kinds, said_boxes = model(images)
    of_kinds = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=kinds, logits=said_kinds)
    away = tf.abs(said_boxes - boxes)
    of_boxes = tf.reduce_sum(tf.where(away < 1, away ** 2 / 2, away - 0.5), axis=-1)
    held = tf.cast(kinds > 0, tf.float32)
    return tf.reduce_mean(of_kinds) + tf.reduce_sum(of_boxes * held) / images.shape[0]
