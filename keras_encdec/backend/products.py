"""Matrix products whose gradients JAX computes fast on a CPU.

JAX's XLA multiplies a transposed left matrix in up to twice the time that its transposed copy takes. Where the rows
have several dimensions, such as batch and time, JAX even transposes the larger matrix. `benchmarks/attention.py`
(training) measures the benefit.
"""

from keras import ops

from keras_encdec.backend.devices import name, on_cpu
from keras_encdec.backend.gradients import custom_gradient
from keras_encdec.backend.tensors import as_tensor
from keras_encdec.backend.types import Tensor


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """`ops.matmul` of rows and one matrix, with a fast gradient of the matrix where the rows are sequences.

    Args:
        rows: float tensor `(..., features)`.
        matrix: float tensor or variable `(features, width)`.

    Returns:
        float tensor `(..., width)`.
    """
    if len(rows.shape) < 3 or not _is_slow():
        return ops.matmul(rows, matrix)
    return custom_gradient(_product, _product_gradients)(rows, as_tensor(matrix))[0]


def _product(rows, matrix):
    return [ops.matmul(rows, matrix)], (rows, matrix)


def _product_gradients(residuals, upstream):
    rows, matrix = residuals
    return [ops.matmul(upstream[0], ops.transpose(matrix)), summed_product(rows, upstream[0])]


def summed_product(left: Tensor, right: Tensor) -> Tensor:
    """Sum over steps of left_t^T right_t, as one product.

    Args:
        left: float tensor `(time, batch, m)`.
        right: float tensor `(time, batch, n)`.

    Returns:
        float tensor `(m, n)`.
    """
    rows = [ops.reshape(tensor, (-1, tensor.shape[-1])) for tensor in (left, right)]
    return ops.matmul(_transposed_copy(rows[0]), rows[1])


def _transposed_copy(matrix):
    """The transposed matrix, which XLA does not merge into the product that reads it."""
    if not _is_slow():
        return ops.transpose(matrix)
    import jax

    return jax.lax.optimization_barrier(ops.transpose(matrix))


def _is_slow():
    """Whether products by a transposed left matrix are slow. In TensorFlow's XLA a copy is slower, with AVX-512."""
    return name() == "jax" and on_cpu()
