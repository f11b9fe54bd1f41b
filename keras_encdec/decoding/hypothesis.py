"""A target sequence that was generated."""

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """A target sequence that was generated.

    Attributes:
        ids: tuple of int, closed by the end of sequence.
        log_prob: float. ln p(ids | source) in nats, as the model's `score` gives it; for an ensemble that of its
            averaged probabilities.
        score: float. What hypotheses are ranked by: `log_prob`, or that normalized by length.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
