"""Trains a small convolutional network in the style of TensorFlow 1: a graph, placeholders, Session.run; seconds as argument (default 20).

Look for: tf.Session.run. The Python thread only waits in it, the work happens in TensorFlow's own pool of threads.
"""
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow.compat.v1 as tf

BATCH, SIDE, CLASSES = 32, 32, 10


def convolution(x, channels, stride, name):
    kernel = tf.get_variable(name, [3, 3, x.shape[-1], channels], initializer=tf.glorot_uniform_initializer())
    return tf.nn.relu(tf.nn.conv2d(x, kernel, strides=stride, padding="SAME"))


def build_graph():
    """Placeholders for images and labels, the loss, and the operation that trains."""
    images = tf.placeholder(tf.float32, [None, SIDE, SIDE, 3], "images")
    labels = tf.placeholder(tf.int32, [None], "labels")
    x = images
    for number, (channels, stride) in enumerate([(32, 1), (48, 2), (64, 1), (128, 2)]):
        x = convolution(x, channels, stride, f"convolution_{number}")
    weights = tf.get_variable("head", [x.shape[-1], CLASSES])
    logits = tf.matmul(tf.reduce_mean(x, axis=[1, 2]), weights)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    train = tf.train.MomentumOptimizer(learning_rate=0.01, momentum=0.9).minimize(loss)
    return images, labels, loss, train


def make_batch(random):
    return random.random((BATCH, SIDE, SIDE, 3), dtype=np.float32), random.integers(0, CLASSES, BATCH)


def main(seconds):
    tf.disable_eager_execution()
    random = np.random.default_rng(1)
    images, labels, loss, train = build_graph()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        end, steps, last = time.monotonic() + seconds, 0, float("nan")
        while time.monotonic() < end:
            batch = make_batch(random)
            _, last = session.run([train, loss], feed_dict={images: batch[0], labels: batch[1]})
            steps += 1
    print(f"tf1_session: {steps} steps, last loss {last:.3f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
