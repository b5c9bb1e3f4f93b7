"""Trains a small convolutional network with Keras' Model.fit, epoch after epoch, for a number of seconds (default 20).

Look for: keras.Model.fit; below it TensorFlow runs one compiled function a step, on its own threads.
"""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import keras
from keras import layers

IMAGES, SIDE, CLASSES = 512, 32, 10


class StopAfter(keras.callbacks.Callback):
    """Ends the training after a number of seconds, also in the middle of an epoch."""

    def __init__(self, seconds):
        super().__init__()
        self.end = time.monotonic() + seconds
        self.steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        self.model.stop_training = time.monotonic() >= self.end


def build_model():
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
            layers.BatchNormalization(),
            layers.Conv2D(128, 3, strides=2, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(CLASSES),
        ]
    )


def main(seconds):
    random = np.random.default_rng(1)
    images = random.random((IMAGES, SIDE, SIDE, 3), dtype=np.float32)
    labels = random.integers(0, CLASSES, IMAGES)
    model = build_model()
    model.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    stop = StopAfter(seconds)
    # More epochs than any run has time for: the callback ends it.
    model.fit(images, labels, batch_size=32, epochs=1_000_000, verbose=0, callbacks=[stop])
    print(f"keras_fit: {stop.steps} steps")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
