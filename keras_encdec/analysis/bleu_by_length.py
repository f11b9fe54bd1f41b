"""BLEU of translations by the length of their sources."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.tuning.corpus_metric import CorpusMetric

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
