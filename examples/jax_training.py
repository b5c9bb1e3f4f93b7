"""Trains a perceptron with JAX, one compiled function a step, for a number of seconds (default 20).

Look for: the line that waits for the step. XLA's own threads do the work, in code that it made at run time.
"""
import sys
import time

import jax
import jax.numpy as jnp

SIZES, BATCH, RATE = [784, 1024, 1024, 10], 256, 0.01


def make_weights(key):
    keys = jax.random.split(key, len(SIZES))
    return [0.05 * jax.random.normal(k, shape) for k, shape in zip(keys, zip(SIZES, SIZES[1:]))]


def scores(weights, images):
    *hidden, last = weights
    for layer in hidden:
        images = jax.nn.relu(images @ layer)
    return images @ last


def loss_of(weights, images, labels):
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(scores(weights, images)) * labels, axis=1))


@jax.jit
def train_step(weights, images, labels):
    loss, slopes = jax.value_and_grad(loss_of)(weights, images, labels)
    return [w - RATE * slope for w, slope in zip(weights, slopes)], loss


def make_batch(key):
    images = jax.random.normal(key, (BATCH, SIZES[0]))
    return images, jax.nn.one_hot(jnp.arange(BATCH) % SIZES[-1], SIZES[-1])


def main(seconds):
    key = jax.random.PRNGKey(1)
    weights = make_weights(key)
    end, steps, loss = time.monotonic() + seconds, 0, jnp.nan
    while time.monotonic() < end:
        key, batch_key = jax.random.split(key)
        weights, loss = train_step(weights, *make_batch(batch_key))
        jax.block_until_ready(weights)
        steps += 1
    print(f"jax_training: {steps} steps, last loss {float(loss):.3f}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20)
