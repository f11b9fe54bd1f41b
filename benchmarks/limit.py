"""What the machine can do: matrix products of the model's sizes, through the library that computes them."""

import sys

from workload import report, seconds_of

ROWS, UNITS, LEAST_SECONDS = 1024, 1000, 2.0


def torch_product():
    """A product through PyTorch, ready to be called."""
    import torch

    a, b = torch.randn(ROWS, UNITS), torch.randn(UNITS, 3 * UNITS)
    return lambda: a @ b


def tensorflow_product():
    """A product through TensorFlow, ready to be called."""
    import tensorflow as tf

    a, b = tf.random.normal((ROWS, UNITS)), tf.random.normal((UNITS, 3 * UNITS))
    return lambda: tf.matmul(a, b)


def jax_product():
    """A product through JAX, ready to be called."""
    import jax

    a = jax.random.normal(jax.random.key(0), (ROWS, UNITS))
    b = jax.random.normal(jax.random.key(1), (UNITS, 3 * UNITS))
    product = jax.jit(lambda a, b: a @ b)
    return lambda: product(a, b).block_until_ready()


if __name__ == "__main__":
    product = {"torch": torch_product, "tensorflow": tensorflow_product, "jax": jax_product}[sys.argv[1]]()
    report(gflops=2e-9 * ROWS * UNITS * 3 * UNITS / seconds_of(product, until=LEAST_SECONDS))
