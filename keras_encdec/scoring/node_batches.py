"""The nodes of a prefix tree as arrays of batches."""

import numpy as np

from keras_encdec.scoring.batch_assignment import assign_batches
from keras_encdec.scoring.prefix_tree import PrefixTree

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
