"""FECoM's estimator/premade: a canned classifier, trained and evaluated. TensorFlow up to 2.15."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import collections
import inspect

# Python 3.11 has it no more, and TensorFlow 2.12's estimators ask for it.
Arguments = collections.namedtuple("Arguments", "args varargs keywords defaults")
inspect.getargspec = lambda function: Arguments(*inspect.getfullargspec(function)[:4])
import numpy as np
import tensorflow as tf
from windows import SECONDS, call, going

random = np.random.default_rng(1)
features = {name: random.random(2000, dtype=np.float32) for name in ("a", "b", "c", "d")}
labels = random.integers(0, 3, 2000)
classifier = tf.estimator.DNNClassifier(
    hidden_units=[128, 64], n_classes=3, feature_columns=[tf.feature_column.numeric_column(name) for name in features]
)


def rows():
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(256)


for _ in going(0.8 * SECONDS):
    with call("tf.estimator.DNNClassifier.train"):
        classifier.train(rows, steps=1500)
for _ in going(0.2 * SECONDS):
    with call("tf.estimator.DNNClassifier.evaluate"):
        classifier.evaluate(rows, steps=200)
