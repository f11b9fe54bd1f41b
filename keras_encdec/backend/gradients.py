"""Functions with a hand-written gradient, products with a fast one, and calls without gradients, on every backend."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import keras
from keras import ops

from keras_encdec.backend.devices import backend_name, on_cpu
from keras_encdec.backend.operations import as_tensor, matmul, wide_dtype
from keras_encdec.backend.types import Structure, Tensor

# Computes the gradients of the arguments from the arguments, the residuals and the gradients of the outputs.
GradientsOf: TypeAlias = Callable[[Sequence[Tensor], Structure, list[Tensor]], list[Tensor | None]]
Forward: TypeAlias = Callable[..., tuple[Sequence[Tensor], Structure]]


def is_differentiable(tensor: Tensor) -> bool:
    """Returns whether a tensor has a float dtype, so that it can have a gradient."""
    return bool(keras.backend.is_float_dtype(keras.backend.standardize_dtype(tensor.dtype)))


def custom_gradient(
    forward: Forward,
    backward: Callable[[Structure, list[Tensor]], Sequence[Tensor | None]],
) -> Callable[..., list[Tensor]]:
    """Makes a function of tensors whose gradient `backward` computes.

    Unlike `keras.ops.custom_gradient`, it allows several outputs under PyTorch, and arguments and outputs without a
    gradient (integers, booleans).

    Args:
        forward: `forward(*tensors) -> (outputs, residuals)`: a list of tensors, and any structure of tensors that
            `backward` needs. It must use no tensors or variables except its arguments: others would get no gradient.
        backward: `backward(residuals, upstream) -> gradients`: from the gradients of the outputs to those of the
            arguments, lists with `None` where an output or an argument has no float dtype.

    Returns:
        callable: `(*tensors) -> outputs`, a list.
    """

    def gradients_of(arguments: Sequence[Tensor], residuals: Structure, upstream: list[Tensor]) -> list[Tensor | None]:
        # JAX requires the dtypes of the arguments, and some of Keras's functions convert float64 to float32.
        return [
            ops.cast(gradient, argument.dtype) if is_differentiable(argument) else None
            for argument, gradient in zip(arguments, backward(residuals, upstream), strict=True)
        ]

    return _CUSTOM_GRADIENTS[backend_name()](forward, gradients_of)


def _with_tensorflow(forward: Forward, gradients_of: GradientsOf) -> Callable[..., list[Tensor]]:
    import tensorflow as tf

    def function(*arguments: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor | None]]]:
        computed, residuals = forward(*arguments)
        outputs = list(computed)

        def gradient(*upstream: Tensor) -> list[Tensor | None]:
            known = [
                (tf.zeros_like(output) if d is None else tf.convert_to_tensor(d)) if is_differentiable(output) else None
                for output, d in zip(outputs, upstream, strict=True)
            ]
            return gradients_of(arguments, residuals, known)

        return outputs, gradient

    decorated: Callable[..., list[Tensor]] = tf.custom_gradient(function)
    return decorated


def _with_jax(forward: Forward, gradients_of: GradientsOf) -> Callable[..., list[Tensor]]:
    import jax

    @jax.custom_vjp
    def function(*arguments: Tensor) -> list[Tensor]:
        return list(forward(*arguments)[0])

    def with_residuals(*arguments: Tensor) -> tuple[list[Tensor], Structure]:
        outputs, residuals = forward(*arguments)
        return list(outputs), (arguments, residuals)

    def gradient(kept: Structure, upstream: list[Tensor]) -> tuple[Tensor | None, ...]:
        arguments, residuals = kept
        known = [None if d.dtype == jax.dtypes.float0 else d for d in upstream]
        return tuple(gradients_of(arguments, residuals, known))

    function.defvjp(with_residuals, gradient)
    return function


def _with_torch(forward: Forward, gradients_of: GradientsOf) -> Callable[..., list[Tensor]]:
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, *arguments: Tensor) -> tuple[Tensor, ...]:
            outputs, context.residuals = forward(*arguments)
            context.save_for_backward(*arguments)
            context.mark_non_differentiable(*(output for output in outputs if not is_differentiable(output)))
            context.differentiable = [is_differentiable(output) for output in outputs]
            return tuple(outputs)

        @staticmethod
        def backward(context: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
            known = [d if kept else None for d, kept in zip(upstream, context.differentiable, strict=True)]
            arguments, residuals = context.saved_tensors, context.residuals
            if torch.is_grad_enabled():  # the gradient will be differentiated, and so must the residuals
                residuals = forward(*arguments)[1]
            return tuple(gradients_of(arguments, residuals, known))

    return lambda *arguments: list(Function.apply(*arguments))


_CUSTOM_GRADIENTS = {"tensorflow": _with_tensorflow, "jax": _with_jax, "torch": _with_torch}


def dense_gradient(gradient: Tensor) -> Tensor:
    """Returns the gradient as one tensor; the slices of TensorFlow's embedding gradients are added up."""
    if not hasattr(gradient, "dense_shape"):
        return gradient
    import tensorflow as tf

    return tf.convert_to_tensor(gradient)


def global_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Computes the norm of all gradients together, the root of the sum of all squares: a scalar, float32 or wider."""
    gradients = [ops.cast(gradient, wide_dtype(gradient.dtype)) for gradient in gradients]
    if backend_name() == "torch":  # which does not fuse the square and the sum
        squares = [rows.dot(rows) for rows in (gradient.reshape(-1) for gradient in gradients)]
    else:
        squares = [ops.sum(ops.square(gradient)) for gradient in gradients]
    return ops.sqrt(ops.sum(ops.stack(squares)))


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_gradients(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A decorator: PyTorch records no gradients in the function, so that NumPy can read its results.

    TensorFlow and JAX record gradients only where a caller asks for them.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if backend_name() != "torch":
            return function(*args, **kwargs)
        import torch

        with torch.no_grad():
            return function(*args, **kwargs)

    return call


def product(rows: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiplies rows by one matrix, as `ops.matmul` does, with a fast gradient of the matrix if rows are sequences.

    Args:
        rows: float tensor `(..., features)`.
        matrix: float tensor or variable `(features, width)`.
        bias: float tensor or variable `(width,)`, added to each row. Defaults to `None`.

    Returns:
        float tensor `(..., width)`.
    """
    if backend_name() == "torch" and bias is not None and rows.dtype == as_tensor(matrix).dtype:
        from keras_encdec.backend import torch_products

        return torch_products.matmul(rows, as_tensor(matrix), as_tensor(bias))
    if len(rows.shape) < 3 or not _transposed_products_are_slow():
        result = matmul(rows, matrix)
    else:
        result = custom_gradient(_product, _product_gradients)(rows, as_tensor(matrix))[0]
    return result if bias is None else ops.add(result, as_tensor(bias))


def sigmoid_gradient(upstream: Tensor, output: Tensor) -> Tensor:
    """Computes the gradient of y = sigmoid(x) from y and its gradient d: d y (1 - y), in one pass under PyTorch."""
    if backend_name() == "torch":
        import torch

        return torch.ops.aten.sigmoid_backward(upstream, output)
    return upstream * output * (1 - output)


def tanh_gradient(upstream: Tensor, output: Tensor) -> Tensor:
    """Computes the gradient of y = tanh(x) from y and its gradient d: d (1 - y^2), in one pass under PyTorch."""
    if backend_name() == "torch":
        import torch

        return torch.ops.aten.tanh_backward(upstream, output)
    return upstream * (1 - output * output)


def _product(rows: Tensor, matrix: Tensor) -> tuple[list[Tensor], tuple[Tensor, Tensor]]:
    return [matmul(rows, matrix)], (rows, matrix)


def _product_gradients(residuals: tuple[Tensor, Tensor], upstream: list[Tensor]) -> list[Tensor]:
    rows, matrix = residuals
    return [matmul(upstream[0], ops.transpose(matrix)), summed_product(rows, upstream[0])]


def summed_product(left: Tensor, right: Tensor) -> Tensor:
    """Computes the sum over steps of left_t^T right_t as one product.

    Args:
        left: float tensor `(time, batch, m)`.
        right: float tensor `(time, batch, n)`.

    Returns:
        float tensor `(m, n)`.
    """
    rows = [ops.reshape(tensor, (-1, tensor.shape[-1])) for tensor in (left, right)]
    return matmul(_transposed_copy(rows[0]), rows[1])


def _transposed_copy(matrix: Tensor) -> Tensor:
    """Returns the transposed matrix as a copy, which XLA does not merge into the product that reads it."""
    if not _transposed_products_are_slow():
        return ops.transpose(matrix)
    import jax

    return jax.lax.optimization_barrier(ops.transpose(matrix))


def _transposed_products_are_slow() -> bool:
    """Returns whether products with a transposed left matrix are slow, as in JAX's XLA on a CPU.

    They take up to twice as long there as with a transposed copy. If the rows have several dimensions, such as batch
    and time, JAX even transposes the larger matrix. In TensorFlow's XLA, a copy is slower (measured with AVX-512).
    `benchmarks/attention.py` (training) measures the benefit.
    """
    return backend_name() == "jax" and on_cpu()
