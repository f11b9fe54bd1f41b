"""log sum exp of the logits of all words, without storing all logits.

`benchmarks/run.py` (scoring) measures the benefit of the chunks and of the variant for PyTorch.
"""

import math
from collections.abc import Callable

from keras import ops

from keras_encdec.backend.devices import name
from keras_encdec.backend.types import Tensor

# Words in a chunk: its logits fit into a processor's cache.
WORDS = 2048
LOG2_E = math.log2(math.e)
# In nats. Between minus and plus this number the result is exact without subtracting the maximum.
SAFE = 60.0


def log_sum_exp(matrix: Tensor, bias: Tensor, careful: bool) -> Callable[[Tensor], Tensor]:
    """Lays out the output matrix once, and returns a function of the features.

    Args:
        matrix: float tensor `(rank, words)`.
        bias: float tensor `(words,)`.
        careful: bool. Whether to subtract the maximum first. Not to do so saves a pass over the logits, and is exact
            while the result is between -`SAFE` and `SAFE`.

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
    """The function for PyTorch, which does not fuse: the bias is a row of the matrix, and 2^x is faster than exp."""
    import torch

    # Products in low precision are fastest when the inner dimension is a multiple of 8.
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
