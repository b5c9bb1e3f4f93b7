"""JAX: a jitted step, and calls that are not jitted."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import jax
import jax.numpy as jnp
from windows import SECONDS, call, going

key = jax.random.PRNGKey(1)
x = jax.random.normal(key, (1024, 256))
y = jnp.sin(x[:, :1])
weights = [jax.random.normal(key, (256, 512)) * 0.05, jax.random.normal(key, (512, 1)) * 0.05]


def loss(weights, x, y):
    return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)


@jax.jit
def train_step(weights, x, y):
    slopes = jax.grad(loss)(weights, x, y)
    return [weight - 0.01 * slope for weight, slope in zip(weights, slopes)]


weights = jax.block_until_ready(train_step(weights, x, y))
for _ in going(0.6 * SECONDS):
    # No window of `jax.jit`: functions of JAX that the others call are jitted too.
    weights = train_step(weights, x, y)
    # The way in which most programs wait: a method in machine code. XLA's threads work meanwhile.
    with call("jax.Array.block_until_ready"):
        weights[0].block_until_ready()
for _ in going(0.4 * SECONDS):
    with call("jax.value_and_grad"):
        found = jax.value_and_grad(loss)(weights, x, y)
    with call("jax.block_until_ready"):
        jax.block_until_ready(found)
    with call("jax.numpy.linalg.svd"):
        found = jnp.linalg.svd(x[:100, :100])
    with call("jax.block_until_ready"):
        jax.block_until_ready(found)
