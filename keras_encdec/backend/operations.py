"""Operations that `keras.ops` lacks, or that are faster or more precise here: products, table rows, top-k, dropout.

Its `ops` is `keras.ops`, which is imported when an operation is first used.
"""

import importlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from keras_encdec.backend.devices import backend_name, xla_on_cpu
from keras_encdec.backend.types import Tensor


class _LazyModule(types.ModuleType):
    def __getattr__(self, name: str) -> object:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


# Imported when an operation is first used. The samplers import `ops` from here: their options become flags, and
# `--help` and errors in flags must not wait for Keras.
if TYPE_CHECKING:
    import keras
    from keras import ops as ops
else:
    ops = _LazyModule("keras.ops")


def as_tensor(value: "Tensor | keras.Variable | np.ndarray") -> Tensor:
    """Converts a value to a tensor; reads a variable once.

    `keras.ops.convert_to_tensor` returns TensorFlow's variables unchanged. A variable that is read at every step of a
    loop keeps a copy per step for its gradient.

    Args:
        value: tensor, variable or array.
    """
    tensor = ops.convert_to_tensor(value)
    if backend_name() == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(tensor)
    return tensor


def matmul(left: "Tensor | keras.Variable", right: "Tensor | keras.Variable") -> Tensor:
    """Multiplies matrices as `ops.matmul` does.

    Under PyTorch, a product of float64 matrices stays float64 (Keras converts it to float32), and oneDNN may compute
    the product (see `torch_products.onednn_matmul`).
    """
    left, right = as_tensor(left), as_tensor(right)
    if backend_name() == "torch" and left.dtype == right.dtype:
        from keras_encdec.backend import torch_products

        return torch_products.matmul(left, right)
    return ops.matmul(left, right)


def tanh(tensor: Tensor) -> Tensor:
    """Computes tanh as `ops.tanh` does.

    Under JAX, float64 stays float64 (Keras converts it to float32). Under PyTorch, oneDNN may compute the tanh (see
    `torch_products.onednn_matmul`).
    """
    if backend_name() == "jax":
        import jax

        return jax.numpy.tanh(tensor)
    if backend_name() == "torch":
        from keras_encdec.backend import torch_products

        return torch_products.tanh(as_tensor(tensor))
    return ops.tanh(tensor)


def wide_dtype(dtype: str) -> str:
    """Returns the dtype for sums and weights of values of a dtype: float64 for float64, otherwise float32.

    Args:
        dtype: str or dtype of a tensor.
    """
    import keras

    return "float64" if keras.backend.standardize_dtype(dtype) == "float64" else "float32"


def take_rows(table: Tensor, indices: Tensor) -> Tensor:
    """Returns rows of a table, copied before they are used.

    On a CPU, XLA would fuse the copy into the arithmetic that follows, and then not vectorize it. XLA does not fuse
    across a branch, so the copy is placed in a branch that is always taken. `benchmarks/run.py` (scoring) measures the
    benefit.

    Args:
        table: tensor `(n, ...)`.
        indices: int32 tensor `(rows,)`, none negative.

    Returns:
        tensor `(rows, ...)`.
    """
    if not xla_on_cpu() or None in (*table.shape[1:], *indices.shape) or 0 in indices.shape:
        return _take(table, indices)
    shape = (*indices.shape, *table.shape[1:])
    # XLA does not know that no index is negative.
    return ops.cond(indices[0] >= 0, lambda: _take(table, indices), lambda: ops.zeros(shape, dtype=table.dtype))


def _take(table: Tensor, indices: Tensor) -> Tensor:
    if backend_name() == "tensorflow":
        import tensorflow as tf

        # Keras would check for negative indices, four more operations at every step of a served model.
        # `benchmarks/serving.py` (a batch of one) measures the benefit.
        return tf.gather(table, indices)
    return ops.take(table, indices, axis=0)


# Rows in a block. In larger blocks, more results are computed for rows of other sources, and thrown away.
BLOCK = 16
# Rows of different sources need different blocks, so more blocks are needed than the rows would fill: this number of
# times as many are computed. A larger number would mean more lookups.
SPARE = 4


def with_table_rows(
    function: Callable[[dict[str, Tensor], dict[str, Tensor]], tuple[Tensor, ...]],
    rows: dict[str, Tensor],
    tables: dict[str, Tensor],
    indices: Tensor,
) -> tuple[Tensor, ...]:
    """Applies a function to rows and to their table rows, with one lookup for neighbours that share a table row.

    The rows are divided into blocks of 16, for which one table row is looked up. If the rows of a block have different
    indices, the block is computed once for each index, so the function should cost little compared with the lookup.
    Every row has its own lookup if most neighbours have different indices, or if the number of rows is unknown, less
    than 64 or not a multiple of 16. `benchmarks/attention.py` (scoring) measures the benefit.

    Args:
        function: from dicts of tensors, the rows `(groups, k, ...)` and their table rows `(groups, ...)`, to a tuple of
            tensors `(groups, k, ...)`.
        rows: dict of tensors `(rows, ...)`.
        tables: dict of tensors `(n, ...)`.
        indices: int32 tensor `(rows,)`, the table rows, none negative.

    Returns:
        tuple of tensors `(rows, ...)`.
    """

    def row_by_row() -> tuple[Tensor, ...]:
        grouped = {key: ops.expand_dims(tensor, 1) for key, tensor in rows.items()}
        taken = {key: take_rows(table, indices) for key, table in tables.items()}
        return tuple(ops.squeeze(output, 1) for output in function(grouped, taken))

    count = indices.shape[0]
    if count is None or count % BLOCK or count < BLOCK * SPARE:
        return row_by_row()
    positions = ops.arange(count, dtype="int32")
    differs = ops.concatenate([ops.ones((1,), "bool"), indices[1:] != indices[:-1]])
    begins = ops.logical_or(differs, positions % BLOCK == 0)
    block_of_row = ops.cumsum(ops.cast(begins, "int32")) - 1
    blocks = count // BLOCK * SPARE

    def in_blocks() -> tuple[Tensor, ...]:
        first = ops.searchsorted(block_of_row, ops.arange(blocks, dtype="int32"))
        first = ops.cast(ops.minimum(first, count - 1), "int32")
        grouped = {
            key: _take(ops.reshape(tensor, (-1, BLOCK, *tensor.shape[1:])), first // BLOCK)
            for key, tensor in rows.items()
        }
        taken = {key: _take(table, _take(indices, first)) for key, table in tables.items()}
        outputs = function(grouped, taken)
        own = block_of_row * BLOCK + positions % BLOCK
        return tuple(_take(ops.reshape(output, (-1, *output.shape[2:])), own) for output in outputs)

    return ops.cond(block_of_row[-1] < blocks, in_blocks, row_by_row)


def in_row_order(matrices: Tensor, rows: int | Tensor) -> Tensor:
    """Copies transposed matrices, which are views under PyTorch, so that their rows are stored one after another.

    A product with the copy takes 0.7 to 0.8 of the time. The copy pays if several of the `rows` multiply each matrix;
    otherwise nothing is copied. `benchmarks/translation.py` (greedy, shortlist) measures the benefit.
    """
    return matrices.contiguous() if backend_name() == "torch" and rows > len(matrices) else matrices


def store_rows(table: Tensor, start: Tensor, rows: Tensor) -> Tensor:
    """Replaces consecutive rows of a table, and returns the new table. Under PyTorch, the given table is changed, too.

    Args:
        table: tensor `(n, ...)`.
        start: int32 scalar, the index of the first row.
        rows: tensor `(k, ...)`, cast to the table's dtype.
    """
    if backend_name() == "torch":
        table[start : start + rows.shape[0]] = rows
        return table
    # JAX with 64 bits requires all indices to have one dtype.
    start = (start, *[ops.zeros_like(start)] * (len(table.shape) - 1))
    return ops.slice_update(table, start, ops.cast(rows, table.dtype))


def sums_at(values: Tensor, indices: Tensor, size: int | Tensor) -> Tensor:
    """Adds up values by index, as `ops.segment_sum` does, but never waits for a GPU under PyTorch.

    Args:
        values: float tensor `(n,)`.
        indices: int32 tensor `(n,)`, from 0 to `size - 1`.
        size: int, or int32 scalar.

    Returns:
        float tensor `(size,)`, 0 at indices that do not occur.
    """
    if backend_name() == "torch":
        return ops.zeros(size, values.dtype).index_add(0, indices, values)
    return ops.segment_sum(values, indices, num_segments=size)


# Number of lines that a row is folded into.
FOLDED_LINES = 16


def top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest values of each long row, as `ops.top_k` does, but faster.

    A top-k goes through each row value by value. Here each row is folded into 16 lines, and the maximum of each column
    is taken, many columns at once. The k largest values are in the k columns with the largest maxima, or among the
    values at the end that fill no column; a top-k of these finds them. `benchmarks/decoding.py` measures the benefit.

    Args:
        values: float tensor `(rows, words)`.
        k: int, at most the number of words.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their indices, int32. Any of equal values may be
        returned.
    """
    if k == 1 and backend_name() != "torch":
        return _maximum(values)
    words = values.shape[-1]
    columns = words // FOLDED_LINES
    # On a GPU, PyTorch would start each of the operations below by itself.
    if 4 * k >= columns or backend_name() == "torch" and not values.is_cpu:
        # ops.top_k returns a named tuple, which some compilers cannot return.
        best, indices = ops.top_k(values, k)
        return best, ops.cast(indices, "int32")
    if k == 1:
        return _torch_maximum(values, columns)
    end = columns * FOLDED_LINES
    folded = ops.reshape(values[:, :end], (-1, FOLDED_LINES, columns))
    _, best_columns = ops.top_k(ops.amax(folded, axis=1), k)  # `ops.max` rejects an empty batch
    lines = ops.arange(0, end, columns, dtype="int32")[:, None]
    indices = ops.reshape(lines + ops.cast(best_columns, "int32")[:, None, :], (-1, FOLDED_LINES * k))
    rest = ops.zeros_like(indices[:, :1]) + ops.arange(end, words, dtype="int32")
    indices = ops.concatenate([indices, rest], axis=1)
    best, places = ops.top_k(ops.take_along_axis(values, indices, axis=1), k)
    return best, ops.take_along_axis(indices, places, axis=1)


def _maximum(values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the largest value of each row and its index, both `(rows, 1)`.

    XLA computes an argmax value by value, but these two reductions many values at once.
    """
    best, last = ops.max(values, axis=-1, keepdims=True), values.shape[-1] - 1
    indices = ops.where(ops.equal(values, best), ops.arange(last + 1, dtype="int32"), last)
    return best, ops.min(indices, axis=-1, keepdims=True)


def _torch_maximum(values: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Does what `top_k` does for k = 1, without the overhead of Keras's functions."""
    import torch

    end, words = columns * FOLDED_LINES, values.shape[-1]
    column = values[:, :end].unflatten(1, (FOLDED_LINES, columns)).amax(1).argmax(1, keepdim=True)
    rest = torch.arange(end, words).expand(len(values), -1)
    indices = torch.cat([column + torch.arange(0, end, columns), rest], 1)
    best, place = values.gather(1, indices).max(1, keepdim=True)
    return best, indices.gather(1, place).int()


def last_maximum(values: Tensor) -> Tensor:
    """Returns the maximum over the last axis, even of an empty batch, which `ops.max` rejects.

    Args:
        values: tensor `(..., n)`, n at least 1.
    """
    if backend_name() == "tensorflow":
        import tensorflow as tf

        return tf.reduce_max(values, axis=-1)
    return ops.amax(values, axis=-1)


def stable_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Returns the k largest values of each short row; equal values stay in their order.

    Args:
        values: float tensor `(rows, columns)`.
        k: int, at most the number of columns.

    Returns:
        tuple: the values `(rows, k)`, the largest first, and their indices, int32.
    """
    if backend_name() == "torch":  # its top-k does not keep the order of equal values
        indices = ops.argsort(-values, axis=-1)[:, :k]
        return ops.take_along_axis(values, indices, axis=-1), ops.cast(indices, "int32")
    best, indices = ops.top_k(values, k)
    return best, ops.cast(indices, "int32")


def dropout(inputs: Tensor, rate: float, seed: "keras.random.SeedGenerator") -> Tensor:
    """Sets a random share of the inputs to zero, and scales the others by 1 / (1 - rate).

    It is `keras.random.dropout` with other random numbers. TensorFlow draws with Philox: in a step that XLA compiles
    for a CPU, its default generator is a hundred times slower, and a model of 512 units takes twice as long to train.
    PyTorch draws 16 bits for each input on a CPU, which rounds the rate to a multiple of 2^-16; its own function draws
    64, and takes five times as long.

    Args:
        inputs: float tensor.
        rate: float above 0 and below 1.
        seed: `keras.random.SeedGenerator`.

    Returns:
        float tensor, shaped like the inputs.
    """
    if backend_name() != "tensorflow":
        import keras

        has_seed = getattr(seed, "_initial_seed", None) is not None  # draws from a generator of its own
        if backend_name() == "torch" and inputs.device.type == "cpu" and not has_seed:
            return _torch_dropout(inputs, rate)
        return keras.random.dropout(inputs, rate, seed=seed)
    import tensorflow as tf

    drawn = tf.random.stateless_uniform(ops.shape(inputs), seed.next(), alg="philox")
    return ops.where(drawn >= rate, inputs / (1 - rate), 0)


def _torch_dropout(inputs: Tensor, rate: float) -> Tensor:
    import torch

    size = inputs.numel()
    drawn = torch.empty(-(-size // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = drawn[:size].view(inputs.shape) >= min(round(rate * 2**16), 2**16 - 1) - 2**15
    return inputs * kept.to(inputs.dtype).mul_(1 / (1 - rate))
