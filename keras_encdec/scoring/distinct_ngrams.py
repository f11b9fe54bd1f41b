"""The distinct n-grams of many sequences."""

import numpy as np

# The largest number that rows of ids are packed into.
LARGEST = 2**62


class DistinctNgrams:
    """Numbers the n-grams of sequences, each a context of n - 1 ids and the id that follows it.

    A model whose state depends on the last n - 1 words alone gives one log-probability to all equal n-grams, and all
    n-grams of one context have the sum over its words in common.

    Args:
        rows: int array `(sequences, width)`, padded with 0 at the end; none of their ids is 0.
        context_length: int. n - 1. Contexts at the beginning of a sequence have zeros in front.

    Attributes:
        contexts: int array `(contexts, context_length)`, in their order.
        context_of_ngram: int array `(ngrams,)`, the number of each n-gram's context, in ascending order.
        words: int array `(ngrams,)`, the last id of each n-gram.
        numbers: int array `(sequences, width)`, the number of the n-gram that ends at each id; 0 on padding.

    Example:

    >>> ngrams = DistinctNgrams(np.array([[5, 6, 2], [5, 7, 2], [5, 2, 0]]), context_length=1)
    >>> ngrams.contexts.tolist(), ngrams.words.tolist(), ngrams.numbers.tolist()
    ([[0], [5], [6], [7]], [5, 2, 6, 7, 2, 2], [[0, 2, 4], [0, 3, 5], [0, 1, 0]])
    """

    def __init__(self, rows: np.ndarray, context_length: int) -> None:
        inside = rows != 0
        before = np.pad(rows, [[0, 0], [context_length, 0]])[:, :-1]
        contexts = np.lib.stride_tricks.sliding_window_view(before, context_length, axis=1)[inside]
        first, context = _numbered(contexts)
        self.contexts = contexts[first]
        words = rows[inside]
        first, number = _numbered(np.stack([context, words], axis=1))
        self.context_of_ngram, self.words = context[first], words[first]
        self.numbers = np.zeros(rows.shape, np.int64)
        self.numbers[inside] = number


def _numbered(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first index of each distinct row, in the rows' order, and the number of each row among them."""
    packed, values = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        base = int(column.max(initial=0)) + 1
        if values * base > LARGEST:  # the numbers of what was packed so far have room for the rest
            packed = np.unique(packed, return_inverse=True)[1]
            values = int(packed.max(initial=0)) + 1
        packed, values = packed * base + column, values * base
    return np.unique(packed, return_index=True, return_inverse=True)[1:]
