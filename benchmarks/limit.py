"""Measures the limit of the machine: matrix products of the model's sizes, computed by a library."""

import sys

from workload import report, seconds_of

ROWS, UNITS, MIN_SECONDS = 1024, 1000, 2.0
SHAPES = (ROWS, UNITS), (UNITS, 3 * UNITS)


def torch_product(dtype):
    """Returns a function that computes the product with PyTorch."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = (torch.randn(shape, dtype=getattr(torch, dtype), device=device) for shape in SHAPES)

    def product():
        a @ b
        if device == "cuda":
            torch.cuda.synchronize()

    return product


def tensorflow_product(dtype):
    """Returns a function that computes the product with TensorFlow."""
    import tensorflow as tf

    a, b = (tf.cast(tf.random.normal(shape), dtype) for shape in SHAPES)
    return lambda: tf.matmul(a, b)


def jax_product(dtype):
    """Returns a function that computes the product with JAX."""
    import jax

    a, b = (jax.random.normal(jax.random.key(0), shape).astype(dtype) for shape in SHAPES)
    product = jax.jit(lambda a, b: a @ b)
    return lambda: product(a, b).block_until_ready()


if __name__ == "__main__":
    library, dtype = sys.argv[1:]
    product = {"torch": torch_product, "tensorflow": tensorflow_product, "jax": jax_product}[library](dtype)
    report(gflops=2e-9 * ROWS * UNITS * 3 * UNITS / seconds_of(product, until=MIN_SECONDS))
