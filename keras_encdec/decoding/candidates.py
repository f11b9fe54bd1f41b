"""Candidate words: a part of the vocabulary that may be used in the targets of a batch of sources."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_encdec.backend.types import Tensor
from keras_encdec.text.vocabulary import FIRST_WORD

# With this number of rows or more, each source has output weights of its own. With fewer rows, reading the weights
# would take most of the time, so all sources of a batch share the weights of all their words, and each masks the words
# of the others. `benchmarks/attention.py` measures the benefit.
OWN_ROWS = 4
# Maximum number of sources in a batch that share their words: with more sources, there would be too many words.
SHARING_SOURCES = 64


class Candidates(NamedTuple):
    """Candidate words of a batch of sources.

    Attributes:
        words: int32 array `(groups, width)`, ids in ascending order, then padding with 0: a row for each source, or one
            row of the words of all sources.
        allowed: boolean array `(sources, width)`: which of these words may follow in targets of a source.
    """

    words: np.ndarray
    allowed: np.ndarray


def with_special_ids(words: np.ndarray) -> np.ndarray:
    """Returns distinct ids in ascending order, after those of padding, the unknown word and the end of sequence.

    Samplers use these ids as constants, so they have the same numbers among the candidates.
    """
    return np.union1d(np.arange(FIRST_WORD), words).astype(np.int32)


def batch_candidates(words: Sequence[np.ndarray], shared: bool, width: int) -> Candidates:
    """Lays out the candidate words of a batch.

    Args:
        words: list of int arrays, the ids of each source from `with_special_ids`.
        shared: bool. Whether all sources share one row.
        width: int, at least `candidates_needed`.

    Returns:
        Candidates.

    Example:

    >>> a, b = with_special_ids([5]), with_special_ids([4, 7])
    >>> words, allowed = batch_candidates([a, b], True, 7)
    >>> words.tolist(), allowed.astype(int).tolist()
    ([[0, 1, 2, 4, 5, 7, 0]], [[1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1, 0]])
    """
    if shared:
        together = np.unique(np.concatenate(words))
        allowed = np.zeros((len(words), width), bool)
        for row, own in zip(allowed, words, strict=True):
            row[np.searchsorted(together, own)] = True
        return Candidates(np.pad(together, (0, width - len(together)))[None].astype(np.int32), allowed)
    rows = np.stack([np.pad(own, (0, width - len(own))) for own in words]).astype(np.int32)
    return Candidates(rows, np.arange(width) < np.array([len(own) for own in words])[:, None])


def candidates_needed(words: Sequence[np.ndarray], shared: bool) -> int:
    """Returns the width that the candidate words of a batch need."""
    return len(np.unique(np.concatenate(words))) if shared else max(map(len, words))


def compiled_width(needed: int, vocabulary_size: int) -> int:
    """Rounds a width up, so that few shapes are compiled: powers of two, and one and a half times these.

    Example:

    >>> [compiled_width(needed, 8000) for needed in (3, 65, 130, 200, 7000)]
    [64, 96, 192, 256, 8000]
    """
    width = 64
    while width < needed:
        width = width * 4 // 3 if width & (width - 1) else width * 3 // 2
    return min(width, max(vocabulary_size, needed))


def words_of_columns(words: Tensor, columns: Tensor) -> Tensor:
    """Returns the ids of candidates by their columns.

    Args:
        words: int32 tensor `(groups, width)`, see `Candidates`.
        columns: int32 tensor `(sources, rows)`.

    Returns:
        int32 tensor `(sources, rows)`.
    """
    if words.shape[0] == 1:
        return ops.take(words[0], columns, axis=0)
    return ops.take_along_axis(words, columns, axis=1)
