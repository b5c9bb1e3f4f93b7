"""Short calls of TensorFlow, one by one, as in FECoM's customization/basics and custom_layers."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
import tensorflow as tf
from windows import call, going

ndarray = np.ones([400, 400], np.float32)
layer = tf.keras.layers.Dense(200)
for _ in going():
    with call("tf.random.uniform"):
        x = tf.random.uniform([400, 400])
    with call("tf.matmul"):
        y = tf.linalg.matmul(x, x)
    with call("tf.multiply"):
        y = tf.math.multiply(ndarray, y)
    with call("tf.reduce_sum"):
        tf.math.reduce_sum(tf.math.square(y))
    with call("keras.layers.Dense.__call__"):
        layer(x)
    with call("tf.data.Dataset.from_tensor_slices"):
        rows = tf.data.Dataset.from_tensor_slices(ndarray)
    with call("tf.data.Dataset.batch"):
        rows = rows.batch(8)
    for batch in rows:
        with call("tf.concat"):
            tf.concat([batch, batch], 0)
