"""A uniform sample of a stream of unknown length."""

import random
from typing import Any


class Reservoir:
    """Keeps a uniform random sample of what it is offered, in the order of the stream.

    Args:
        size: int. Items to keep at most.
        seed: int or str. The same seed keeps the same items of the same stream.

    Attributes:
        offered: int. Items offered so far.

    Example:

    >>> reservoir = Reservoir(2, seed=1)
    >>> for number in range(100):
    ...     reservoir.offer(number)
    >>> len(reservoir.items()), reservoir.offered
    (2, 100)

    Reference:
        - Vitter, 1985, Random sampling with a reservoir, algorithm R
    """

    def __init__(self, size: int, seed: int | str) -> None:
        self.size, self.offered = size, 0
        self._random, self._kept = random.Random(seed), []

    def offer(self, item: Any) -> None:
        """Offers one more item."""
        self.offered += 1
        if len(self._kept) < self.size:
            self._kept.append((self.offered, item))
        elif (place := self._random.randrange(self.offered)) < self.size:
            self._kept[place] = (self.offered, item)

    def items(self) -> list[Any]:
        """What is kept: list."""
        return [item for _, item in sorted(self._kept, key=lambda kept: kept[0])]
