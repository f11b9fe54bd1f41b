"""Shared prefixes of sequences, as a tree."""

import numpy as np


class PrefixTree:
    """The distinct prefixes of many sequences: a node each.

    A recurrent network that reads sequences makes the same state for the same prefix, so that each
    node is one state to compute, from that of its parent.

    Args:
        rows: int array `(n, width)`, sequences padded at the end.
        lengths: int array `(n,)`, at least 1.

    Attributes:
        ids: int array `(nodes,)`, the last id of each prefix.
        parents: int array `(nodes,)`, the prefix without its last id; -1 where that is empty.
        heights: int array `(nodes,)`, steps from the node to the end of the longest sequence through it.
        paths: int array `(n, width)`, the nodes along each sequence, its last repeated beyond its end.
    """

    def __init__(self, rows: np.ndarray, lengths: np.ndarray) -> None:
        count, width = rows.shape
        order = np.lexsort(rows.T[::-1])
        rows, lengths = rows[order], lengths[order]
        new = np.ones((count, width), bool)
        new[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
        inside = np.arange(width) < lengths[:, None]
        new &= inside
        numbers = np.cumsum(new.ravel()).reshape(count, width) - 1
        # The prefix of a row that is not new is that of the nearest row above which is.
        paths = np.maximum.accumulate(np.where(new, numbers, 0), axis=0)
        self.ids = rows[new]
        self.parents = np.concatenate([np.full((count, 1), -1), paths[:, :-1]], axis=1)[new]
        self.heights = np.zeros(len(self.ids), np.int64)
        for depth in range(width):
            first = np.flatnonzero(new[:, depth])
            if len(first):
                # Rows after the last of a prefix are shorter, or new: they change no maximum.
                self.heights[numbers[first, depth]] = np.maximum.reduceat(lengths, first) - 1 - depth
        self.paths = np.empty_like(paths)
        self.paths[order] = np.where(inside, paths, paths[np.arange(count), lengths - 1][:, None])
