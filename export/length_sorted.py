"""Loops over phrases of mixed lengths with nothing computed for padding, in a TensorFlow graph.

Phrases are taken in the order of their lengths, the longest first, so that those which are not over at a step are the
first rows; each step computes these alone. A part of them is in work at a time, so that memory does not grow with the
batch but for the results.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# Phrases in work at a time.
PHRASES = 256


def in_parts(part: Callable[[tf.Tensor, Any], Any], lengths: tf.Tensor, results: Any) -> Any:
    """Calls `part(indices, results) -> results` for a number of phrases at a time, those of like length together.

    Args:
        part: function of int32 indices `(k,)`, the longest phrase first, and of the results so far.
        lengths: int32 tensor `(n,)`.
        results: structure of tensors, before the first part.

    Returns:
        structure of tensors.
    """
    number = tf.size(lengths)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def turn(start, results):
        return start + PHRASES, part(order[start : start + PHRASES], results)

    return one_by_one(lambda start, _: start < number, turn, (0, results))[1]


def rows_by_step(lengths: tf.Tensor) -> tf.Tensor:
    """How many phrases, sorted by their lengths `(k,)`, go on to each step: int32 `(steps,)`."""
    return tf.reduce_sum(tf.cast(tf.sequence_mask(lengths), tf.int32), axis=0)


def put_rows(table: tf.Tensor, indices: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """The table `(n, ...)` with the rows `(k, ...)` at these indices; what they lack of its width is zero."""
    missing = tf.shape(table)[1:] - tf.shape(rows)[1:]
    paddings = tf.pad(tf.stack([tf.zeros_like(missing), missing], axis=1), [[1, 0], [0, 0]])
    rows = rows if table.shape[1:].is_fully_defined() else tf.pad(rows, paddings)
    return tf.tensor_scatter_nd_update(table, indices[:, None], rows)


def one_by_one(goes_on: Callable[..., Any], body: Callable[..., Any], values: Any) -> Any:
    """`tf.while_loop`, one turn after another."""
    # Side by side, turns would take the memory that the parts are there to save.
    return tf.while_loop(goes_on, body, values, parallel_iterations=1)
