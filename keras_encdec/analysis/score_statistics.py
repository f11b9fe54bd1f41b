"""The model's scores of phrase pairs against the phrase table's (Figure 3 of the paper), and its perplexity."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_encdec.analysis.table_sample import TablePair
from keras_encdec.backend.gradients import without_gradients
from keras_encdec.models.contract import Decoder
from keras_encdec.models.log_probs import token_log_probs
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric


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
            [pairs[i] for i in kept],
            np.log(probabilities[kept]),
            np.asarray(model_log_probs)[kept],
            len(pairs) - len(kept),
        )

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


# Bins of fewer pairs say nothing, and are left out where there are others.
FEWEST_PAIRS = 10
# Longer ones are counted together.
LONGEST = 60


@dataclasses.dataclass(frozen=True)
class BinnedScores:
    """ln p a token, by something else of the pairs.

    Attributes:
        keys: list of float. Where each bin begins: a length, or a frequency.
        counts: list of int. Pairs of each bin.
        quartiles: float64 array `(bins, 3)`. Nats a token.
    """

    keys: list[float]
    counts: list[int]
    quartiles: np.ndarray


def scores_by_length(lengths: Sequence[int], scores: np.ndarray) -> BinnedScores:
    """A bin for each length.

    Args:
        lengths: list of n int, words.
        scores: float array `(n,)`, ln p a token.
    """
    return _binned(np.minimum(np.asarray(lengths), LONGEST), scores)


def scores_by_frequency(frequencies: Sequence[float], scores: np.ndarray) -> BinnedScores:
    """Bins of 1, 2 to 3, 4 to 7 and so on, each named by where it begins.

    Args:
        frequencies: list of n float, 1 or more.
        scores: float array `(n,)`, ln p a token.

    Example:

    >>> scores_by_frequency([1, 3, 2, 5], np.array([-1.0, -2.0, -4.0, -1.0])).keys
    [1.0, 2.0, 4.0]
    """
    return _binned(2.0 ** np.floor(np.log2(np.asarray(frequencies, np.float64))), scores)


def _binned(keys, scores):
    distinct, counts = np.unique(keys, return_counts=True)
    if (counts >= FEWEST_PAIRS).any():
        distinct, counts = distinct[counts >= FEWEST_PAIRS], counts[counts >= FEWEST_PAIRS]
    quartiles = [np.percentile(scores[keys == key], (25, 50, 75)) for key in distinct]
    return BinnedScores(distinct.tolist(), counts.tolist(), np.array(quartiles).reshape(-1, 3))


BINS = 6


class LengthBleu(NamedTuple):
    """BLEU of the sentences of like length.

    Attributes:
        shortest, longest: int. Source words.
        sentences: int.
        bleu: float. Of the sentences together, 0 to 100.
    """

    shortest: int
    longest: int
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The lengths, such as "5–9"."""
        return f"{self.shortest}–{self.longest}" if self.longest > self.shortest else f"{self.longest}"


def bleu_by_length(
    lengths: Sequence[int], translations: Sequence[str], references: Sequence[str], bins: int = BINS
) -> tuple[float, list[LengthBleu]]:
    """Scores translations, all together and in bins of nearly as many sentences.

    Args:
        lengths: list of n int. Source words.
        translations, references: lists of n str, in tokens.
        bins: int. Bins at most; sentences of one length stand in one. Defaults to `6`.

    Returns:
        tuple: BLEU of all, and a list of LengthBleu, the shortest first.

    Raises:
        ImportError: when sacrebleu is not installed.
    """
    metric = CorpusMetric("bleu", [list(references)])
    counts = np.stack([metric.counts(number, text) for number, text in enumerate(translations)])
    ordered, found = np.sort(lengths), []
    edges = [int(ordered[-(-len(ordered) * i // bins) - 1]) for i in range(1, bins + 1)]
    lengths, below = np.asarray(lengths), 0
    for edge in sorted(set(edges)):
        inside = (lengths > below) & (lengths <= edge) if found else lengths <= edge
        if inside.any():
            score = float(metric.scores(counts[inside].sum(axis=0)))
            found.append(LengthBleu(int(lengths[inside].min()), edge, int(inside.sum()), score))
        below = edge
    return float(metric.scores(counts.sum(axis=0))), found


@without_gradients
def perplexity(model: Any, batches: Iterable[dict[str, Any]], with_source: bool = True) -> float:
    """exp of minus the mean log-probability of a target token, end of sequence included.

    Args:
        model: TranslationModel.
        batches: iterable of dicts, "source" `(batch, source_time)` and "target" `(batch, target_time)`.
        with_source: bool. Whether the decoder gets what the encoder made of the source; otherwise it gets zeros in
            its place, and what it still predicts it predicts from the words before. Defaults to `True`.

    Returns:
        float.
    """
    total, tokens = 0.0, 0
    for batch in batches:
        encoded = model.encode(batch["source"])
        if not with_source:
            encoded = keras.tree.map_structure(_without_information, encoded)
        target = ops.convert_to_tensor(batch["target"], "int32")
        log_probs = token_log_probs(model.decoder(Decoder.previous_words(target), encoded), target)
        total += float(ops.sum(log_probs))
        tokens += int((batch["target"] != 0).sum())
    return math.exp(-total / max(tokens, 1))


def _without_information(tensor):
    """Zeros; a mask stays."""
    return tensor if keras.backend.standardize_dtype(tensor.dtype) == "bool" else ops.zeros_like(tensor)
