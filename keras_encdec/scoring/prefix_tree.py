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


def assign_batches(parents: np.ndarray, heights: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Puts nodes of a tree into batches of one size, every node in a later batch than its parent.

    The longest way to a leaf goes first, so that the last batches are full as well (Hu's rule).

    Args:
        parents: int array `(nodes,)`, -1 at a root.
        heights: int array `(nodes,)`, a parent's larger than its children's.
        size: int. Nodes a batch.

    Returns:
        tuple: int array `(nodes,)`, each node's slot, batch * size + its column there, and the number of batches.

    Reference:
        - Hu, 1961, "Parallel Sequencing and Assembly Line Problems"
    """
    # Nodes are told by their rank from here on, the highest first. A batch looks at those alone that are ready, so that
    # the time is linear in the number of nodes, of a single long sequence too.
    order = np.argsort(-heights, kind="stable")
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order], ranks[-1] = np.arange(len(order)), -1
    parents = ranks[parents[order]]
    by_parent = np.argsort(parents, kind="stable")
    first = np.searchsorted(parents[by_parent], np.arange(len(order) + 1))
    slots = np.empty(len(order), np.int64)
    ready, batch = by_parent[: first[0]], 0
    while len(ready):
        chosen, ready = ready[:size], ready[size:]
        slots[order[chosen]] = batch * size + np.arange(len(chosen))
        starts, counts = first[chosen], first[chosen + 1] - first[chosen]
        children = by_parent[np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        ready = np.sort(np.concatenate([ready, children]), kind="stable")
        batch += 1
    return slots, batch


# States computed together, and the longest sequence for which there are slots enough. A batch of 1024
# is the fastest a state; long sequences leave too few at each step to fill it.
LARGEST, SMALLEST, LONGEST = 1024, 64, 16
# With batches of one node, TensorFlow's XLA copies whole tables at every step, which takes 40 times as long.
FEWEST = 2


class NodeBatches:
    """Puts the nodes of a tree into batches, each in a later one than its parent.

    Args:
        tree: PrefixTree.
        size: int. Nodes of a batch at most; fewer where they would not fill it.
        slots: int. Slots of all batches together, unless the tree is higher than there are batches then.

    Attributes:
        size: int. Slots of a batch.
        slots: int array `(nodes,)`, each node's slot: batch * size + column.
        used: int. Batches that hold a node.
        room: int. Batches that the slots are enough for.
    """

    def __init__(self, tree: PrefixTree, size: int, slots: int) -> None:
        tallest = int(tree.heights.max()) + 1
        while size > SMALLEST and len(tree.ids) < size * tallest:
            size //= 4
        self.size = size
        self.slots, self.used = assign_batches(tree.parents, tree.heights, size)
        self.room = max(slots // size, _power(tallest))
        self._rows = max(self.room, _power(self.used))
        self._parents = tree.parents

    def filled(self, values: np.ndarray, default: int = 0) -> np.ndarray:
        """Values of the nodes as int32 array `(batches, size)`, the default in what is left free."""
        array = np.full(self._rows * self.size, default, np.int32)
        array[self.slots] = values
        return array.reshape(self._rows, self.size)

    @property
    def parents(self) -> np.ndarray:
        """The slot of each node's parent, -1 at a root: int32 array `(batches, size)`."""
        return self.filled(np.where(self._parents < 0, -1, self.slots[self._parents]), default=-1)


def largest_batch(longest: int | np.ndarray) -> np.ndarray:
    """Nodes of a batch at most, for sequences of a length: int or int array."""
    return np.maximum(FEWEST, LARGEST // 4 ** np.maximum(0, np.ceil(np.log2(longest / LONGEST) / 2)).astype(np.int64))


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()
