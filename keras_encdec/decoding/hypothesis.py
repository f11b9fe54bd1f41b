"""A target sequence that was generated."""

from typing import NamedTuple

import numpy as np


class Hypothesis(NamedTuple):
    """A target sequence that was generated.

    Attributes:
        ids: tuple of int, closed by the end of sequence.
        log_prob: float. ln p(ids | source) in nats, as the model's `score` gives it; for an ensemble that of its
            averaged probabilities.
        score: float. What hypotheses are ranked by: `log_prob`, or that normalized by length.
        attention: float32 array `(tokens, source_tokens)`, the weight of each source token for each token, ends of
            sequences counted, if it was asked for; else `None`.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    attention: np.ndarray | None = None
