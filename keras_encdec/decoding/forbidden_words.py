"""Words that a search may not choose."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_encdec.backend.keras_ops import ops


def forbid_words(log_probs: Any, ids: Sequence[int]) -> Any:
    """Log-probabilities of the next word, -inf for forbidden ids.

    Args:
        log_probs: float tensor `(..., vocabulary)`.
        ids: sequence of int, the forbidden ones.

    Returns:
        tensor of the same shape and dtype.
    """
    # Adding a row takes one pass over the rows; choosing word by word takes two.
    mask = np.zeros(log_probs.shape[-1], "float32")
    mask[list(ids)] = -np.inf
    return log_probs + ops.convert_to_tensor(mask, log_probs.dtype)
