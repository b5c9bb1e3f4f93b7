"""Images sorted by Keras, as in FECoM's keras/classification: fit, evaluate and predict of a Sequential."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
import tensorflow as tf
from windows import SECONDS, call, going

random = np.random.default_rng(1)
images, labels = random.random((6000, 28, 28), dtype=np.float32), random.integers(0, 10, 6000)
model = tf.keras.Sequential(
    [
        tf.keras.layers.Flatten(input_shape=(28, 28)),
        tf.keras.layers.Dense(256, activation="relu"),
        tf.keras.layers.Dropout(0.2),
        tf.keras.layers.Dense(10),
    ]
)
with call("keras.Sequential.compile"):
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
for _ in going(0.6 * SECONDS):
    with call("keras.Sequential.fit"):
        model.fit(images, labels, verbose=0)
for _ in going(0.2 * SECONDS):
    with call("keras.Sequential.evaluate"):
        model.evaluate(images, labels, verbose=0)
for _ in going(0.2 * SECONDS):
    with call("keras.Sequential.predict"):
        model.predict(images, verbose=0)
