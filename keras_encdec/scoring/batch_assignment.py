"""Which states are computed together."""

import numpy as np


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
