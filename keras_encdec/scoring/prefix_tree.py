"""The prefix tree of many sequences, and its nodes in batches, every node later than its parent."""

import numpy as np

from keras_encdec.backend.compiled_call import power_of_two


class PrefixTree:
    """A tree whose nodes are the distinct prefixes of many sequences.

    A recurrent network computes the same state for the same prefix. Each node is therefore one state, which is computed
    from its parent's.

    Args:
        rows: int array `(n, width)`, sequences padded at the end.
        lengths: int array `(n,)`, at least 1.

    Attributes:
        ids: int array `(nodes,)`, the last id of each prefix.
        parents: int array `(nodes,)`, the node of the prefix without its last id; -1 if this prefix is empty.
        heights: int array `(nodes,)`, steps from the node to the end of the longest sequence through it.
        paths: int array `(n, width)`, the nodes along each sequence; its last node is repeated beyond its end.
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
        # A prefix that is not new in its row is the prefix of the nearest row above where it is new.
        paths = np.maximum.accumulate(np.where(new, numbers, 0), axis=0)
        self.ids = rows[new]
        self.parents = np.concatenate([np.full((count, 1), -1), paths[:, :-1]], axis=1)[new]
        self.heights = np.zeros(len(self.ids), np.int64)
        for depth in range(width):
            first = np.flatnonzero(new[:, depth])
            if len(first):
                # The slices also contain rows after the last one of a prefix; these are shorter and change no maximum.
                self.heights[numbers[first, depth]] = np.maximum.reduceat(lengths, first) - 1 - depth
        self.paths = np.empty_like(paths)
        self.paths[order] = np.where(inside, paths, paths[np.arange(count), lengths - 1][:, None])


def assign_batches(parents: np.ndarray, heights: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """Assigns the nodes of a tree to batches of one size, every node to a later batch than its parent.

    Nodes with the longest path to a leaf go first, so that the last batches are full as well (Hu's rule).

    Args:
        parents: int array `(nodes,)`, -1 at a root.
        heights: int array `(nodes,)`, larger for a parent than for its children.
        size: int. Nodes per batch.

    Returns:
        tuple: int array `(nodes,)`, each node's slot, batch * size + its column there, and the number of batches.

    Reference:
        - Hu, 1961, "Parallel Sequencing and Assembly Line Problems"
    """
    # From here on a node is identified by its rank, the highest node first. Each batch looks only at the nodes whose
    # parents are assigned, so that the time is linear in the number of nodes, even for a single long sequence.
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
        # Columns follow the order of the tree: prefixes of one source are neighbours, which share a look-up of its
        # memory.
        slots[np.sort(order[chosen])] = batch * size + np.arange(len(chosen))
        starts, counts = first[chosen], first[chosen + 1] - first[chosen]
        children = by_parent[np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())]
        ready = np.sort(np.concatenate([ready, children]), kind="stable")
        batch += 1
    return slots, batch


# Most and fewest states per batch, and the longest sequence for the largest batch. Batches of 1024 take the least time
# per state; long sequences have too few states at each step to fill them.
MAX_BATCH, MIN_BATCH, MAX_LENGTH_OF_MAX_BATCH = 1024, 64, 16
# With batches of one node, TensorFlow's XLA copies whole tables at every step, which takes 40 times as long.
MIN_NODES = 2


class NodeBatches:
    """The nodes of a tree in batches, every node in a later batch than its parent.

    Args:
        tree: PrefixTree.
        size: int. Maximum number of nodes per batch. Batches are smaller if the nodes would not fill them.
        slots: int. Slots of all batches together. A tree that needs more batches because of its height gets more.

    Attributes:
        size: int. Slots of a batch.
        slots: int array `(nodes,)`, each node's slot: batch * size + column.
        used: int. Number of batches that hold a node.
        room: int. Number of batches that fit into the slots.
    """

    def __init__(self, tree: PrefixTree, size: int, slots: int) -> None:
        tallest = int(tree.heights.max()) + 1
        while size > MIN_BATCH and len(tree.ids) < size * tallest:
            size //= 4
        self.size = size
        self.slots, self.used = assign_batches(tree.parents, tree.heights, size)
        self.room = max(slots // size, power_of_two(tallest))
        self._rows = max(self.room, power_of_two(self.used))
        self._parents = tree.parents

    def filled(self, values: np.ndarray, default: int = 0) -> np.ndarray:
        """Returns the values of the nodes as int32 array `(batches, size)`, with the default in free slots."""
        array = np.full(self._rows * self.size, default, np.int32)
        array[self.slots] = values
        return array.reshape(self._rows, self.size)

    @property
    def parents(self) -> np.ndarray:
        """The slot of each node's parent, -1 at a root: int32 array `(batches, size)`."""
        return self.filled(np.where(self._parents < 0, -1, self.slots[self._parents]), default=-1)


def largest_batch(longest: int | np.ndarray) -> np.ndarray:
    """Returns the maximum number of nodes of a batch for sequences of this length: int or int array."""
    quarterings = np.maximum(0, np.ceil(np.log2(longest / MAX_LENGTH_OF_MAX_BATCH) / 2)).astype(np.int64)
    return np.maximum(MIN_NODES, MAX_BATCH // 4**quarterings)
