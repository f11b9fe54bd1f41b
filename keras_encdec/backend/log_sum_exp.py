"""The logarithm of the sum of exp of all logits, without all of them in memory.

`benchmarks/run.py` shows what the chunks, and the variant for PyTorch, are worth (scoring).
"""

import math
from collections.abc import Callable

from keras import ops

from keras_encdec.backend.devices import name
from keras_encdec.backend.types import Tensor

# Words whose logits are in memory at a time, so that they stay in a processor's cache.
WORDS = 2048
LOG2_E = math.log2(math.e)
# The result is exact without the maximum between minus and plus this, in nats.
SAFE = 60.0


def log_sum_exp(matrix: Tensor, bias: Tensor, careful: bool) -> Callable[[Tensor], Tensor]:
    """Lays out the output matrix once, and returns a function of what it is multiplied with.

    Args:
        matrix: float tensor `(rank, words)`.
        bias: float tensor `(words,)`.
        careful: bool. Whether to subtract the maximum first. Without, it is a pass less over the logits,
            and exact while the result stays within `SAFE`.

    Returns:
        callable: from features `(batch, rank)` to nats `(batch,)`, float32.
    """
    words = matrix.shape[1]
    chunks = -(-words // WORDS)
    # Rows of the matrix begin at a cache line.
    width = -(-words // chunks // 64) * 64
    padding = chunks * width - words
    matrix = ops.pad(matrix, [[0, 0], [0, padding]])
    bias = ops.pad(bias, [[0, padding]], constant_values=float("-inf"))
    parts = [(matrix[:, i : i + width], bias[i : i + width]) for i in range(0, chunks * width, width)]

    def function(features):
        logits = (ops.cast(ops.matmul(features, matrix) + bias, "float32") for matrix, bias in parts)
        if careful:
            return ops.logsumexp(ops.stack([ops.logsumexp(part, axis=-1) for part in logits]), axis=0)
        return ops.log(sum(ops.sum(ops.exp(part), axis=-1) for part in logits))

    return _torch_function(parts, width) if name() == "torch" and not careful else function


def _torch_function(parts, width):
    """The function for PyTorch, which fuses nothing: the bias is a row of the matrix, and 2^x is its fast exp."""
    import torch

    # Of few bits, a product is fastest of a multiple of 8.
    rank = parts[0][0].shape[0]
    rows = -(rank + 1) % 8
    parts = [torch.cat([m, b[None], m.new_zeros(rows, width)]).contiguous() for m, b in parts]

    def function(features):
        row = torch.nn.functional.pad(features, (0, 1 + rows), value=1.0)
        total = 0.0
        for matrix in parts:
            logits = (row @ matrix).float()
            total = total + logits.mul_(LOG2_E).exp2_().sum(-1)
        return total.log()

    return function
