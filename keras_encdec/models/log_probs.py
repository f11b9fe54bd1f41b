"""The definition of the score, and the checks of the id sequences that it reads."""

from collections.abc import Mapping

import numpy as np
from keras import ops

from keras_encdec.backend.log_sums import target_log_probs
from keras_encdec.backend.operations import wide_dtype
from keras_encdec.backend.types import Tensor
from keras_encdec.text.vocabulary import END


def token_log_probs(logits: Tensor, target: Tensor) -> Tensor:
    """Computes log p(y_t | y_<t, x) of each target token; 0 on padding.

    Args:
        logits: float tensor `(batch, time, vocabulary)`.
        target: integer tensor `(batch, time)`: y_1 .. y_T, including the end of sequence, padding 0.

    Returns:
        tensor `(batch, time)`, nats: float32 (float64 for float64 logits) whatever the compute dtype.
    """
    return _log_probs(logits, target)[0]


def token_and_mean_log_probs(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Computes `token_log_probs`, and at each token the mean of log p(w | y_<t, x) over all ids w except 0.

    Args:
        logits: float tensor `(batch, time, vocabulary)`.
        target: integer tensor `(batch, time)`: y_1 .. y_T, including the end of sequence, padding 0.

    Returns:
        tuple of two tensors `(batch, time)`, nats, 0 on padding: float32 (float64 for float64 logits) whatever the
        compute dtype.
    """
    log_probs, means = _log_probs(logits, target, with_means=True)
    return log_probs, means


def _log_probs(logits: Tensor, target: Tensor, with_means: bool = False) -> list[Tensor]:
    # Flat: PyTorch's cross-entropy expects the classes on axis 1, and would copy a tensor of rank three.
    flat = ops.reshape(ops.cast(logits, wide_dtype(logits.dtype)), (-1, logits.shape[-1]))
    results = target_log_probs(flat, ops.reshape(target, (-1,)), with_means)
    results = [ops.reshape(result, ops.shape(target)) for result in results]
    return [ops.where(ops.not_equal(target, 0), result, ops.zeros_like(result)) for result in results]


def next_log_probs(logits: Tensor) -> Tensor:
    """Computes log p of every id as the next word: what `token_log_probs` gives with this id as the target.

    Args:
        logits: float tensor `(..., vocabulary)`.

    Returns:
        tensor of the same shape, nats: float32 (float64 for float64 logits) whatever the compute dtype.
    """
    return ops.log_softmax(ops.cast(logits, wide_dtype(logits.dtype)), axis=-1)


def sequence_log_probs(log_probs: Tensor) -> Tensor:
    """Computes score(x, y): the sum over the target's tokens and its end of sequence, without length normalization.

    Args:
        log_probs: float tensor `(batch, time)` from `token_log_probs`, nats.

    Returns:
        float tensor `(batch,)`, nats.
    """
    return ops.sum(log_probs, axis=-1)


SPECIAL_IDS = 3  # 0 padding and "no previous word", 1 unknown word, 2 end of sequence


def check_sequences(name: str, rows: np.ndarray, lengths: np.ndarray, ids: int) -> None:
    """Checks that each row is a sequence of known ids without 0, closed by the end of sequence.

    Args:
        name: str. The name of the rows in the error, such as "source".
        rows: int array `(n, time)`, padded with 0.
        lengths: int array `(n,)`.
        ids: int. Number of ids; each id must be below it.

    Raises:
        ValueError: with the first row that fails the check.
    """
    # In a row without ids, -1 is the position of padding.
    closed = np.take_along_axis(rows, lengths[:, None] - 1, axis=1)[:, 0] == END
    inside = np.count_nonzero(rows, axis=1) == lengths
    wrong = np.flatnonzero(~closed | ~inside | (rows < 0).any(axis=1) | (rows >= ids).any(axis=1))
    if len(wrong):
        sequence = rows[wrong[0], : lengths[wrong[0]]].tolist()
        expected = f"ids from 1 to {ids - 1} closed by the end of sequence, {END}"
        raise ValueError(f"found the {name} {sequence}, expected {expected}")


def check_training_arrays(sides: dict[str, Tensor], ids: dict[str, int]) -> None:
    """Checks the NumPy arrays that `fit` and `evaluate` receive.

    JAX does not report ids out of range, and no backend reports a row without its end of sequence.

    Args:
        sides: dict of arrays; the values of other tensors are not checked.
        ids: dict of int, the number of ids of each side.

    Raises:
        ValueError: for a side that is a list, an array that is not an integer array `(rows, time)`, different numbers
            of rows, or a row that is not a sequence of the model's ids closed by the end of sequence.
    """
    for name, rows in sides.items():
        if isinstance(rows, list | tuple):
            raise ValueError(
                f"found a {type(rows).__name__} as the {name}, expected an integer array (rows, time); "
                "keras_encdec.data.pad makes one from lists of ids"
            )
        if isinstance(rows, np.ndarray):
            _check_id_array(name, rows)
    numbers = {name: len(rows) for name, rows in sides.items() if isinstance(rows, np.ndarray)}
    check_row_numbers(numbers)
    for name in numbers:
        rows = sides[name]
        lengths = rows.shape[1] - np.argmax(rows[:, ::-1] != 0, axis=1)
        check_sequences(name, rows, np.where(rows.any(axis=1), lengths, 0), ids[name])


def check_row_numbers(numbers: Mapping[str, int | None]) -> None:
    """Raises ValueError if the sides of pairs, by their names, differ in their known numbers of rows."""
    if len(set(numbers.values()) - {None}) > 1:
        counts = " and ".join(f"{number} rows of the {name}" for name, number in numbers.items())
        raise ValueError(f"found {counts}, expected the same number: each row is a pair")


def id_tensor(name: str, rows: Tensor, ids: int) -> Tensor:
    """Checks the ids that a model is called with, and converts them to a tensor.

    JAX does not report ids out of range, and TensorFlow does not report negative ids of a source.

    Args:
        name: str. The name of the rows in the error, such as "source".
        rows: integer array `(rows, time)`, or a list of lists of the same length; the values of other tensors are not
            checked.
        ids: int. Number of ids; each id must be below it.

    Returns:
        int32 tensor `(rows, time)`.

    Raises:
        ValueError: for an array that does not hold such ids.
    """
    if isinstance(rows, np.ndarray | list | tuple):
        try:
            rows = np.asarray(rows)
        except ValueError:
            raise ValueError(
                f"found rows of different lengths as the {name}, expected an integer array (rows, time); "
                "keras_encdec.data.pad makes one from lists of ids"
            ) from None
        _check_id_array(name, rows)
        wrong = rows[(rows < 0) | (rows >= ids)]
        if wrong.size:
            raise ValueError(f"found the id {wrong[0]} in the {name}, expected ids from 0 to {ids - 1}")
    return ops.convert_to_tensor(rows, "int32")


def _check_id_array(name: str, rows: np.ndarray) -> None:
    if rows.ndim != 2 or rows.dtype.kind not in "iu" or not rows.size:
        raise ValueError(
            f"found a {name} of shape {rows.shape} and dtype {rows.dtype}, expected integer ids (rows, time), at least "
            "one row and one id in each row"
        )
