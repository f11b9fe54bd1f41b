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
    slots = np.full(len(parents) + 1, len(parents) * size)  # "not yet"
    slots[-1] = -1  # the parent of a root
    waiting = np.argsort(-heights, kind="stable")
    batch = 0
    while len(waiting):
        # Seldom are more to be looked through: all that wait are, if these do not fill the batch.
        for window in (4 * size, len(waiting)):
            ready = np.flatnonzero(slots[parents[waiting[:window]]] < batch * size)[:size]
            if len(ready) == size:
                break
        chosen = waiting[ready]
        slots[chosen] = batch * size + np.arange(len(chosen))
        waiting = np.delete(waiting, ready)
        batch += 1
    return slots[:-1], batch
