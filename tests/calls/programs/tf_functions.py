"""Two compiled functions by turns, of unlike length: each is to have its own work, though all that tells them apart comes and goes with a call."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tensorflow as tf
from windows import call, going


@tf.function
def train_step(x):
    return tf.reduce_sum(x @ x @ x)


@tf.function
def check_step(x):
    return tf.reduce_sum(x @ x)


large, small = tf.random.normal((900, 900)), tf.random.normal((700, 700))
train_step(large), check_step(small)
for _ in going():
    with call("tf.function(train_step)"):
        train_step(large).numpy()
    with call("tf.function(check_step)"):
        check_step(small).numpy()
