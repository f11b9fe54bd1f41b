"""Compares the model's scores with a phrase table's (Figure 3 of the paper), and computes perplexity and BLEU."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops
from numpy.typing import ArrayLike

from keras_encdec.analysis.table_sample import TablePair
from keras_encdec.backend.gradients import without_gradients
from keras_encdec.backend.types import Tensor
from keras_encdec.models.contract import Decoder
from keras_encdec.models.log_probs import token_log_probs
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric

# Share of the pairs that lie below the part of Figure 3 that is shown first, on each axis.
_LEFT_OUT = 0.002


@dataclasses.dataclass(frozen=True)
class ScoreComparison:
    """ln p(target | source) of pairs, by the table and by the model.

    Attributes:
        pairs: list of n TablePair, without pairs of probability 0 in the table.
        table: float64 array `(n,)`, nats.
        model: float64 array `(n,)`, nats.
        left_out: int. Number of pairs of probability 0.
    """

    pairs: list[TablePair]
    table: np.ndarray
    model: np.ndarray
    left_out: int

    @classmethod
    def of(cls, pairs: Sequence[TablePair], model_log_probs: np.ndarray) -> "ScoreComparison":
        """Compares lines of a table with the model's ln p of each, float array in nats."""
        probabilities = np.array([pair.probability for pair in pairs])
        kept = np.flatnonzero(probabilities > 0)
        return cls(
            [pairs[i] for i in kept.tolist()],
            np.log(probabilities[kept]),
            np.asarray(model_log_probs)[kept],
            len(pairs) - len(kept),
        )

    @property
    def view(self) -> tuple[float, float, float, float]:
        """Left, bottom, right and top of the part of the plane that contains all pairs but the lowest on each axis.

        On each axis, one pair in 500 is left out: a few very improbable pairs would take up most of the plane.
        """
        lows = [float(np.quantile(values, _LEFT_OUT)) for values in (self.table, self.model)]
        right, top = float(self.table.max()), float(self.model.max())
        left, bottom = (low - 0.04 * max(1.0, high - low) for low, high in zip(lows, (right, top), strict=True))
        return left, bottom, right, top

    @property
    def out_of_view(self) -> int:
        """The number of pairs outside `view`."""
        left, bottom, _, _ = self.view
        return int(((self.table < left) | (self.model < bottom)).sum())

    @property
    def correlation(self) -> float:
        """Pearson's r of the table's and the model's ln p; NaN if it is undefined, as for a single pair."""
        return _correlation(self.table, self.model)

    @property
    def rank_correlation(self) -> float:
        """Spearman's rho of the table's and the model's ln p, with mean ranks for ties; NaN if it is undefined."""
        return _correlation(_ranks(self.table), _ranks(self.model))

    def most_differing(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the pairs for which the model's ln p is furthest above and furthest below the table's.

        Args:
            size: int. Maximum number of pairs of each kind.

        Returns:
            tuple of int arrays, indices of pairs, the largest difference first: pairs with a higher probability by the
            model than in the table; pairs with a lower one.
        """
        differences = self.model - self.table
        order = np.argsort(-differences, kind="stable")
        above, below = order[:size], order[::-1][:size]
        return above[differences[above] > 0], below[differences[below] < 0]


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


# Bins with fewer pairs are dropped, unless all bins have fewer.
MIN_PAIRS = 10
# Longer phrases share a bin.
LONGEST = 60


@dataclasses.dataclass(frozen=True)
class BinnedScores:
    """Quartiles of ln p per token, in bins of pairs.

    Bins of fewer than 10 pairs are left out, unless all bins are that small.

    Attributes:
        keys: list of float. Lower bound of each bin: a length, or a frequency.
        counts: list of int. Number of pairs in each bin.
        quartiles: float64 array `(bins, 3)`, nats per token.
    """

    keys: list[float]
    counts: list[int]
    quartiles: np.ndarray


def scores_by_length(lengths: ArrayLike, scores: np.ndarray) -> BinnedScores:
    """Bins ln p per token by length: one bin for each length below 60 words, and one for 60 or more."""
    return _binned(np.minimum(np.asarray(lengths), LONGEST), scores)


def scores_by_frequency(frequencies: ArrayLike, scores: np.ndarray) -> BinnedScores:
    """Bins ln p per token by frequency, 1 or more: 1, 2 to 3, 4 to 7 and so on.

    Example:

    >>> scores_by_frequency([1, 3, 2, 5], np.array([-1.0, -2.0, -4.0, -1.0])).keys
    [1.0, 2.0, 4.0]
    """
    return _binned(2.0 ** np.floor(np.log2(np.asarray(frequencies, np.float64))), scores)


def _binned(keys: np.ndarray, scores: np.ndarray) -> BinnedScores:
    distinct, counts = np.unique(keys, return_counts=True)
    if (counts >= MIN_PAIRS).any():
        distinct, counts = distinct[counts >= MIN_PAIRS], counts[counts >= MIN_PAIRS]
    quartiles = [np.percentile(scores[keys == key], (25, 50, 75)) for key in distinct]
    return BinnedScores(distinct.tolist(), counts.tolist(), np.array(quartiles).reshape(-1, 3))


BINS = 6


class LengthBleu(NamedTuple):
    """BLEU of the sentences in a range of lengths.

    Attributes:
        shortest, longest: int. Numbers of source words.
        sentences: int. Number of sentences.
        bleu: float. Corpus BLEU of these sentences, 0 to 100.
    """

    shortest: int
    longest: int
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The range of lengths, such as "5–9"."""
        return f"{self.shortest}–{self.longest}" if self.longest > self.shortest else f"{self.longest}"


def bleu_by_length(
    lengths: Sequence[int], translations: Sequence[str], references: Sequence[str], bins: int = BINS
) -> tuple[float, list[LengthBleu]]:
    """Computes BLEU of all translations, and of bins with similar numbers of sentences.

    Args:
        lengths: list of n int, numbers of source words.
        translations, references: lists of n str, tokens separated by spaces.
        bins: int. Maximum number of bins. Sentences of the same length share a bin. Defaults to `6`.

    Returns:
        tuple: float, BLEU of all sentences; list of LengthBleu, the shortest first.

    Raises:
        ImportError: if sacrebleu is not installed.
    """
    metric = CorpusMetric("bleu", [list(references)])
    counts = metric.corpus_counts(translations)
    words, results, below = np.array(lengths), list[LengthBleu](), -1
    ordered = np.sort(words)
    edges = [int(ordered[-(-len(ordered) * i // bins) - 1]) for i in range(1, bins + 1)]
    for edge in sorted(set(edges)):
        inside = (words > below) & (words <= edge)
        score = float(metric.scores(counts[inside].sum(axis=0)))
        results.append(LengthBleu(int(words[inside].min()), edge, int(inside.sum()), score))
        below = edge
    return float(metric.scores(counts.sum(axis=0))), results


@without_gradients
def perplexity(model: TranslationModel, batches: Iterable[Mapping[str, np.ndarray]], with_source: bool = True) -> float:
    """Computes perplexity: exp of minus the mean ln p of a target token, including the end of sequence.

    Args:
        model: TranslationModel.
        batches: iterable of dicts, "source" `(batch, source_time)` and "target" `(batch, target_time)`.
        with_source: bool. Whether the decoder gets the output of the encoder. Otherwise it gets zeros, so that it
            predicts a word only from the words before it. Defaults to `True`.
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


def _without_information(tensor: Tensor) -> Tensor:
    """Replaces a tensor with zeros, unless it is a mask."""
    return tensor if keras.backend.standardize_dtype(tensor.dtype) == "bool" else ops.zeros_like(tensor)
