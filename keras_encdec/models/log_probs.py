"""The one definition of the score."""

import keras
from keras import ops


def token_log_probs(logits, target):
    """log p(y_t | y_<t, x) of each target token; 0 on padding.

    Args:
        logits: float tensor `(batch, time, vocabulary)`.
        target: integer tensor `(batch, time)`: y_1 .. y_T, end of sequence included, padding 0.

    Returns:
        tensor `(batch, time)`, nats: float32 (float64 for float64 logits) whatever the compute dtype.
    """
    wide = "float64" if keras.backend.standardize_dtype(logits.dtype) == "float64" else "float32"
    logits = ops.cast(logits, wide)
    chosen = ops.take_along_axis(logits, ops.expand_dims(ops.cast(target, "int32"), -1), axis=-1)
    log_probs = ops.squeeze(chosen, -1) - ops.logsumexp(logits, axis=-1)
    return ops.where(ops.not_equal(target, 0), log_probs, ops.zeros_like(log_probs))


def sequence_log_probs(log_probs):
    """score(x, y): the sum over the tokens of a target, end of sequence included, no normalization.

    Args:
        log_probs: float tensor `(batch, time)` from `token_log_probs`, nats.

    Returns:
        float tensor `(batch,)`, nats.
    """
    return ops.sum(log_probs, axis=-1)
