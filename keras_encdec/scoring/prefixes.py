"""Shared prefixes of sequences, found by sorting."""

import numpy as np


class Prefixes:
    """The distinct prefixes of many sequences, level by level.

    A recurrent network that reads sequences makes the same state for the same prefix, so that each
    distinct prefix is one state to compute. Level d has the prefixes of d + 1 ids; those of one level
    can be computed together, from those of the level before.

    Args:
        rows: int array `(n, width)`, sequences padded at the end.
        lengths: int array `(n,)`.

    Attributes:
        levels: list of `Level`, as many as the longest sequence.
    """

    def __init__(self, rows, lengths):
        order = np.lexsort(rows.T[::-1])
        rows, lengths = rows[order], lengths[order]
        new = np.ones(rows.shape, bool)
        new[1:] = np.logical_or.accumulate(rows[1:] != rows[:-1], axis=1)
        self.levels = []
        parents = None
        for depth in range(int(lengths.max(initial=0))):
            inside = lengths > depth
            first = new[:, depth] & inside
            nodes = np.cumsum(first) - 1
            level = Level()
            level.ids = rows[first, depth]
            level.parents = None if parents is None else parents[first]
            level.members, level.places = order[inside], nodes[inside]
            self.levels.append(level)
            parents = nodes


class Level:
    """The distinct prefixes of one length.

    Attributes:
        ids: int array `(prefixes,)`, the last id of each.
        parents: int array `(prefixes,)`, where each has its prefix on the level before; `None` on the first.
        members: int array `(m,)`, the sequences that reach this level.
        places: int array `(m,)`, which prefix of the level each of them has.
    """

    __slots__ = ("ids", "members", "parents", "places")
