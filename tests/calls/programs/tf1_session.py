"""A graph run by a session, as TensorFlow 1 does."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import numpy as np
import tensorflow.compat.v1 as tf
from windows import call, going

tf.disable_eager_execution()
x = tf.placeholder(tf.float32, (None, 512))
weights = tf.get_variable("w", (512, 512))
loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, weights))))
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
data = np.random.default_rng(1).random((512, 512), dtype=np.float32)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in going():
        with call("tf.Session.run"):
            session.run([train, loss], {x: data})
