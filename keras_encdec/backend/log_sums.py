"""Log-probabilities of targets; log sum exp of all logits without the maximum, where exact; logits of words."""

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from keras_encdec.backend.devices import backend_name, xla_on_cpu
from keras_encdec.backend.gradients import custom_gradient
from keras_encdec.backend.operations import last_maximum, matmul, ops, wide_dtype
from keras_encdec.backend.types import Structure, Tensor

Results = TypeVar("Results")

# Maximum number of words in a chunk: its logits fit into a processor's cache.
CHUNK_WORDS = 2048
LOG2_E = math.log2(math.e)
# Elements of a part of a matrix that fits into a processor's cache.
CACHED = 1 << 17
# In nats. Between minus and plus this number the result is exact without subtracting the maximum.
SAFE = 60.0


def target_log_probs(logits: Tensor, target: Tensor, with_means: bool = False) -> list[Tensor]:
    """Computes ln p of the target of each row and, for label smoothing, the mean of ln p over all ids except 0.

    The gradient needs no second matrix of the size of the logits. In Keras's cross-entropy, PyTorch writes one of
    zeros with a number in each row, and JAX multiplies ln p of all ids with one. `benchmarks/run.py` (training)
    measures the benefit.

    Args:
        logits: float32 or float64 tensor `(rows, words)`.
        target: integer tensor `(rows,)`.
        with_means: bool. Whether to compute the means. Defaults to `False`.

    Returns:
        list of tensors `(rows,)` of the dtype of the logits, nats: one, or two with means. ln p of an id that is not
        below `words` is nan; PyTorch, and TensorFlow without XLA, raise an error.
    """
    if backend_name() == "torch":
        return _torch_target_log_probs(logits, target, with_means)
    words = logits.shape[-1]
    largest = ops.stop_gradient(last_maximum(logits))
    total = ops.log(ops.sum(ops.exp(logits - largest[:, None]), axis=-1))
    of_target = ops.take_along_axis(logits, ops.cast(target, "int32")[:, None], axis=1)[:, 0]
    results = [ops.where(target < words, of_target, np.nan)]
    if with_means:
        results.append((ops.sum(logits, axis=-1) - logits[:, 0]) / (words - 1))
    return [result - largest - total for result in results]


def _torch_target_log_probs(logits: Tensor, target: Tensor, with_means: bool) -> list[Tensor]:
    import torch

    others = logits.shape[1] - 1

    def forward(logits: Tensor, target: Tensor) -> tuple[list[Tensor], Structure]:
        log_probs, columns = torch.log_softmax(logits, -1), target.long()[:, None]
        results = [log_probs.gather(1, columns)[:, 0]]
        if with_means:
            results.append((log_probs.sum(-1) - log_probs[:, 0]) / others)
        return results, (log_probs, columns)

    def backward(residuals: Structure, upstream: list[Tensor]) -> list[Tensor | None]:
        (log_probs, columns), of_target = residuals, upstream[0][:, None]
        of_each = upstream[1][:, None] / others if with_means else None
        weights = -of_target if of_each is None else -of_target - others * of_each
        if torch.is_grad_enabled():  # the gradient will be differentiated
            gradient = log_probs.exp() * weights
        else:
            gradient, rows = torch.empty_like(log_probs), len(log_probs)
            if log_probs.is_cpu:
                rows = max(1, CACHED // log_probs.shape[1])
            for parts in zip(*(tensor.split(rows) for tensor in (log_probs, weights, gradient)), strict=True):
                torch.mul(parts[0], LOG2_E, out=parts[2]).exp2_().mul_(parts[1])  # 2^x is faster than exp
        if of_each is not None:
            gradient.add_(of_each)[:, :1].sub_(of_each)
        return [gradient.scatter_add_(1, columns, of_target), None]

    return custom_gradient(forward, backward)(logits, target)


class SafeSums:
    """Computes sums without subtracting the maximum, and again with the subtraction if one is too large or too small.

    After the first such sum, all further calls subtract the maximum from the start.
    """

    def __init__(self) -> None:
        self._careful = False

    def __call__(self, compute: Callable[[bool], Results], sums: Callable[[Results], np.ndarray]) -> Results:
        """Returns results whose sums are exact.

        Args:
            compute: function that takes `careful`, see `log_sum_exp`, and returns results.
            sums: function that takes the results and returns the log-sum-exps in them that are in use, an array in
                nats.
        """
        if not self._careful:
            results = compute(False)
            if (np.abs(sums(results)) < SAFE).all():
                return results
            self._careful = True
        return compute(True)


def log_sum_exp(matrix: Tensor, bias: Tensor, careful: bool) -> Callable[[Tensor], Tensor]:
    """Prepares log sum exp(features matrix + bias), the log of the denominator of a softmax, for one output matrix.

    The matrix is divided into chunks of columns once, and PyTorch has its own function. `benchmarks/run.py` (scoring)
    measures the benefit of both.

    Args:
        matrix: float tensor `(rank, words)`.
        bias: float tensor `(words,)`.
        careful: bool. Whether to subtract the maximum first. Leaving it out saves a pass over the logits, and is exact
            while the result is between -`SAFE` and `SAFE`.

    Returns:
        callable: from features `(batch, rank)` to nats `(batch,)`, float32.
    """
    if xla_on_cpu():  # XLA would round some of the logits to a narrow dtype, although it multiplies in float32
        matrix, bias = (ops.cast(part, wide_dtype(matrix.dtype)) for part in (matrix, bias))
    words = matrix.shape[1]
    chunks = -(-words // CHUNK_WORDS)
    # Rows of the matrix begin at a cache line.
    width = -(-words // chunks // 64) * 64
    padding = chunks * width - words
    matrix = ops.pad(matrix, [[0, 0], [0, padding]])
    bias = ops.pad(bias, [[0, padding]], constant_values=float("-inf"))
    parts = [(matrix[:, i : i + width], bias[i : i + width]) for i in range(0, chunks * width, width)]

    def function(features: Tensor) -> Tensor:
        features = ops.cast(features, matrix.dtype)
        logits = (ops.cast(matmul(features, matrix) + bias, "float32") for matrix, bias in parts)
        if careful:
            return ops.logsumexp(ops.stack([ops.logsumexp(part, axis=-1) for part in logits]), axis=0)
        return ops.log(sum(ops.sum(ops.exp(part), axis=-1) for part in logits))

    return _torch_function(parts, width) if backend_name() == "torch" and not careful else function


def _torch_function(parts: list[tuple[Tensor, Tensor]], width: int) -> Callable[[Tensor], Tensor]:
    """Returns the function of `log_sum_exp` for PyTorch, which does not fuse operations.

    The bias is added by the product, as one more row of the matrix; 2^x is faster than exp.
    """
    import torch

    from keras_encdec.backend.torch_products import product_with

    if _has_int8_products():
        # As a row of the matrix, the bias would be rounded to 8 bits with the rest of its column: it is added instead.
        scaled = [(m * LOG2_E, b * LOG2_E) for m, b in parts]

        def with_int8(features: Tensor) -> Tensor:
            return sum((features @ m).add_(b).exp2_().sum(-1) for m, b in scaled).log()

        return with_int8

    # Products in low precision are fastest when the inner dimension is a multiple of 8.
    rank = parts[0][0].shape[0]
    rows = -(rank + 1) % 8
    products = [product_with(torch.cat([m, b[None], m.new_zeros(rows, width)])) for m, b in parts]

    def function(features: Tensor) -> Tensor:
        row = torch.nn.functional.pad(features, (0, 1 + rows), value=1.0)
        total: Tensor = 0.0
        for product in products:
            total = total + product(row).float().mul_(LOG2_E).exp2_().sum(-1)
        return total.log()

    return function


def word_logits(features: Tensor, columns: Tensor, biases: Tensor, dtype: str) -> Tensor:
    """Computes a logit of each row, rounded like the logits that `log_sum_exp` adds up.

    With another rounding, ln p of a likely word would be positive or too low. PyTorch rounds the logits to the dtype of
    the matrix, or the factors of the product to 8 bits. XLA rounds nothing on a CPU; on other devices it decides by
    itself.

    Args:
        features: float32 tensor `(rows, rank)`.
        columns: float32 tensor `(rows, rank)`, the column of the output matrix for each row; or `(rank,)`, that of all.
        biases: float32 tensor `(rows,)`, or scalar.
        dtype: str or dtype of the output matrix.

    Returns:
        float32 tensor `(rows,)`.
    """
    if _has_int8_products():
        from keras_encdec.backend.torch_int8 import rounded_to_int8

        features, columns = rounded_to_int8(features), rounded_to_int8(columns)
    logits = ops.sum(features * columns, axis=-1) + biases
    return ops.cast(ops.cast(logits, dtype), "float32") if backend_name() == "torch" else logits


def _has_int8_products() -> bool:
    if backend_name() != "torch":
        return False
    from keras_encdec.backend.torch_int8 import int8_is_active

    return int8_is_active()
