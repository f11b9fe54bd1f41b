"""Figure 3 of the paper: the model's scores of phrase pairs against the phrase table's."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.table_sample import TablePair


@dataclasses.dataclass(frozen=True)
class ScoreComparison:
    """ln p(target | source) of pairs, by the table and by the model.

    Attributes:
        pairs: list of n TablePair, those of probability 0 in the table left out.
        table: float64 array `(n,)`, nats.
        model: float64 array `(n,)`, nats.
        left_out: int. Pairs of probability 0.
    """

    pairs: list[TablePair]
    table: np.ndarray
    model: np.ndarray
    left_out: int

    @classmethod
    def of(cls, pairs: Sequence[TablePair], model_log_probs: np.ndarray) -> "ScoreComparison":
        """From lines of a table and the model's ln p of each."""
        probabilities = np.array([pair.probability for pair in pairs])
        kept = np.flatnonzero(probabilities > 0)
        return cls(
            [pairs[i] for i in kept], np.log(probabilities[kept]), np.asarray(model_log_probs)[kept],
            len(pairs) - len(kept),
        )  # fmt: skip

    @property
    def correlation(self) -> float:
        """Pearson's r of the two; not a number where it has none, as of a single pair."""
        return _correlation(self.table, self.model)

    @property
    def rank_correlation(self) -> float:
        """Spearman's rho of the two, equal scores sharing their mean rank; not a number where it has none."""
        return _correlation(_ranks(self.table), _ranks(self.model))

    def most_differing(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the model's ln p is furthest above and furthest below the table's.

        Args:
            size: int. Pairs of each kind.

        Returns:
            tuple of int arrays, indices of pairs, the furthest first: those that the model gives a higher probability
            than the table, and those that it gives a lower one.
        """
        differences = self.model - self.table
        order = np.argsort(-differences, kind="stable")
        above, below = order[:size], order[::-1][:size]
        return above[differences[above] > 0], below[differences[below] < 0]


def _correlation(x, y):
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values):
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
