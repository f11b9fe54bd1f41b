"""The nodes of a prefix tree as arrays of batches."""

import numpy as np

from keras_encdec.scoring.schedule import schedule

# States computed together, and the longest sequence for which there are slots enough. A batch of 1024
# is the fastest a state; long sequences leave too few at each step to fill it.
LARGEST, SMALLEST, LONGEST = 1024, 64, 16


class Batches:
    """Puts the nodes of a tree into batches, each in a later one than its parent.

    Args:
        tree: PrefixTree.
        size: int. Nodes of a batch at most; fewer where they would not fill it.
        slots: int. Slots of all batches together, unless the tree is higher than there are batches then.

    Attributes:
        size: int. Slots of a batch.
        slots: int array `(nodes,)`, each node's slot: batch * size + place.
        used: int. Batches that hold a node.
        room: int. Batches that the slots are enough for.
    """

    def __init__(self, tree, size, slots):
        tallest = int(tree.heights.max()) + 1
        while size > SMALLEST and len(tree.ids) < size * tallest:
            size //= 4
        self.size = size
        self.slots, self.used = schedule(tree.parents, tree.heights, size)
        self.room = max(slots // size, _power(tallest))
        self._rows = max(self.room, _power(self.used))
        self._parents = tree.parents

    def filled(self, values, default=0):
        """Values of the nodes as int32 array `(batches, size)`, the default in what is left free."""
        array = np.full(self._rows * self.size, default, np.int32)
        array[self.slots] = values
        return array.reshape(self._rows, self.size)

    @property
    def parents(self):
        """The slot of each node's parent, -1 at a root: int32 array `(batches, size)`."""
        return self.filled(np.where(self._parents < 0, -1, self.slots[self._parents]), default=-1)


def largest_batch(longest):
    """Nodes of a batch at most, of sequences that are so long: int or int array."""
    return np.maximum(1, LARGEST // 4 ** np.maximum(0, np.ceil(np.log2(longest / LONGEST) / 2)).astype(np.int64))


def _power(number):
    return 1 << (number - 1).bit_length()
