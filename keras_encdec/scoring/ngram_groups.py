"""Distinct n-grams cut into groups that one compiled call scores."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from keras_encdec.scoring.distinct_ngrams import DistinctNgrams

# Contexts that are computed together, and for few of them.
SIZE, SMALLEST = 1024, 64
# Batches of contexts in a group; there may be twice as many of n-grams.
BATCHES = 16


@dataclasses.dataclass
class NgramGroup:
    """The arguments of `NgramDecoder` for some n-grams, and where in its results they are.

    Attributes:
        inputs: tuple of int32 arrays, the arguments.
        contexts: int. Contexts of these n-grams.
        context_of_ngram: int array `(ngrams,)`, the slot of the context of each n-gram.
    """

    inputs: tuple
    contexts: int
    context_of_ngram: np.ndarray

    def log_probs(self, logits: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """ln p of each n-gram's last word, float64 `(ngrams,)`, from what `NgramDecoder` returns."""
        logits, totals = logits[: len(self.context_of_ngram)].astype(np.float64), totals.astype(np.float64)
        return logits - totals[self.context_of_ngram]


def cut_ngrams(ngrams: DistinctNgrams) -> Iterator[NgramGroup]:
    """Cuts n-grams into groups, in their order: a context is in two groups where these meet, if at all."""
    size = SIZE
    while size > SMALLEST and len(ngrams.contexts) < size:
        size //= 4
    start = 0
    while start < len(ngrams.words):
        first = ngrams.context_of_ngram[start]
        stop = np.searchsorted(ngrams.context_of_ngram, first + BATCHES * size)
        stop = min(int(stop), start + 2 * BATCHES * size)
        context_of_ngram = ngrams.context_of_ngram[start:stop] - first
        contexts = ngrams.contexts[first : first + context_of_ngram[-1] + 1]
        inputs = (
            _filled(contexts, BATCHES, size),
            np.int32(-(-len(contexts) // size)),
            _filled(context_of_ngram, 2 * BATCHES, size),
            _filled(ngrams.words[start:stop], 2 * BATCHES, size),
            np.int32(-(-(stop - start) // size)),
        )
        yield NgramGroup(inputs, len(contexts), context_of_ngram)
        start = stop


def _filled(rows, batches, size):
    array = np.zeros((batches * size, *rows.shape[1:]), np.int32)
    array[: len(rows)] = rows
    return array.reshape(batches, size, *rows.shape[1:])
