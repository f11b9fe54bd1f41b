"""The one definition of the score."""

import keras
from keras import ops

from keras_encdec.backend.types import Tensor


def token_log_probs(logits: Tensor, target: Tensor) -> Tensor:
    """log p(y_t | y_<t, x) of each target token; 0 on padding.

    Args:
        logits: float tensor `(batch, time, vocabulary)`.
        target: integer tensor `(batch, time)`: y_1 .. y_T, including the end of sequence, padding 0.

    Returns:
        tensor `(batch, time)`, nats: float32 (float64 for float64 logits) whatever the compute dtype.
    """
    wide = _wide(logits)
    # Flat: PyTorch's cross-entropy expects the classes on axis 1, and would copy a tensor of rank three.
    flat = ops.reshape(ops.cast(logits, wide), (-1, logits.shape[-1]))
    losses = ops.sparse_categorical_crossentropy(ops.reshape(target, (-1,)), flat, from_logits=True)
    losses = ops.cast(ops.reshape(losses, ops.shape(target)), wide)  # JAX in x64 mode widens them
    return ops.where(ops.not_equal(target, 0), -losses, ops.zeros_like(losses))


def mean_log_probs(logits: Tensor, target: Tensor) -> Tensor:
    """The mean of log p(w | y_<t, x) over all ids w but 0, the padding, at each target token; 0 on padding.

    Args:
        logits: float tensor `(batch, time, vocabulary)`.
        target: integer tensor `(batch, time)`: y_1 .. y_T, including the end of sequence, padding 0.

    Returns:
        tensor `(batch, time)`, nats: float32 (float64 for float64 logits) whatever the compute dtype.
    """
    logits = ops.cast(logits, _wide(logits))
    means = ops.mean(logits[..., 1:], axis=-1) - ops.logsumexp(logits, axis=-1)
    return ops.where(ops.not_equal(target, 0), means, ops.zeros_like(means))


def next_log_probs(logits: Tensor) -> Tensor:
    """log p of every id as the next word, equal to `token_log_probs` with this id as the target.

    Args:
        logits: float tensor `(..., vocabulary)`.

    Returns:
        tensor of the same shape, nats: float32 (float64 for float64 logits) whatever the compute dtype.
    """
    return ops.log_softmax(ops.cast(logits, _wide(logits)), axis=-1)


def sequence_log_probs(log_probs: Tensor) -> Tensor:
    """score(x, y): the sum over the tokens of a target, including the end of sequence, without length normalization.

    Args:
        log_probs: float tensor `(batch, time)` from `token_log_probs`, nats.

    Returns:
        float tensor `(batch,)`, nats.
    """
    return ops.sum(log_probs, axis=-1)


def _wide(logits):
    return "float64" if keras.backend.standardize_dtype(logits.dtype) == "float64" else "float32"
