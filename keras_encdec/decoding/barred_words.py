"""Words that a search may not choose."""

import numpy as np
from keras import ops


def barred(log_probs, ids):
    """Log-probabilities of the next word, -inf for some ids.

    Args:
        log_probs: float tensor `(..., vocabulary)`.
        ids: list of int.

    Returns:
        tensor of the same shape and dtype.
    """
    # A row that is added takes one pass over the rows; choosing word by word takes two.
    added = np.zeros(log_probs.shape[-1], "float32")
    added[ids] = -np.inf
    return log_probs + ops.convert_to_tensor(added, log_probs.dtype)
