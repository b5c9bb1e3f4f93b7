"""Noise taken out of images, as in FECoM's generative/autoencoder: a Model of the program's own, fitted and asked."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
import tensorflow as tf
from windows import SECONDS, call, going

layers = tf.keras.layers


class Denoise(tf.keras.Model):
    """Two layers of convolution, and two back."""

    def __init__(self):
        super().__init__()
        self.encoder = tf.keras.Sequential(
            [layers.Conv2D(16, 3, activation="relu", padding="same", strides=2), layers.Conv2D(8, 3, activation="relu", padding="same", strides=2)]
        )
        self.decoder = tf.keras.Sequential(
            [
                layers.Conv2DTranspose(8, 3, strides=2, activation="relu", padding="same"),
                layers.Conv2DTranspose(16, 3, strides=2, activation="relu", padding="same"),
                layers.Conv2D(1, 3, activation="sigmoid", padding="same"),
            ]
        )

    def call(self, images):
        return self.decoder(self.encoder(images))


images = np.random.default_rng(1).random((512, 28, 28, 1), dtype=np.float32)
model = Denoise()
model.compile("adam", loss="mse")
for _ in going(0.8 * SECONDS):
    with call("keras.Model.fit"):
        model.fit(images, images, verbose=0)
for _ in going(0.2 * SECONDS):
    with call("keras.Sequential.__call__"):
        model.encoder(images)
