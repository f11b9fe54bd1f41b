"""Which batch sizes are worth computing."""

import collections
from collections.abc import Hashable

from keras_encdec.backend.devices import name

# Multiplications that take about as long as compiling a step for one more size: a second of a processor of two cores.
COMPILING = 3e10


class BatchReduction:
    """The size that a batch is cut down to when only a part of its rows is needed any more.

    It is halved, again and again: fewer sizes are less to compile. A size is compiled only when the rows that were
    computed in vain without it, since the beginning, have taken about as long as compiling takes. So a few sources wait
    for little compiling, many gain all that the sizes are worth, and it never takes much more than twice the time that
    the best choice would have taken (the ski rental problem). What is decided depends on what was computed before, and
    not on the clock.

    Where nothing is compiled, rows are dropped as soon as they are an eighth. `benchmarks/decoding.py` shows what it is
    worth ("rows computed a token").

    Args:
        multiplications: int. Those that a row takes, roughly.
        minimum: int. Batches of fewer rows take no less time.
    """

    def __init__(self, multiplications: int, minimum: int) -> None:
        self._minimum = minimum
        self._compiles = name() != "torch"
        self._rows_of_compiling = COMPILING / max(1, multiplications)
        self._in_vain: collections.Counter[tuple[Hashable, int]] = collections.Counter()

    def reduced(self, what: Hashable, size: int, needed: int, copies: int = 1) -> int:
        """The size for the next step of a batch.

        Args:
            what: hashable. What is compiled for each size anew.
            size: int. Items of the batch, such as sources.
            needed: int. Items that are needed.
            copies: int. Rows of an item. Defaults to `1`.

        Returns:
            int, at least `needed`; `size` where cutting down is not worth while.
        """
        if not self._compiles:
            return needed if needed <= size * 7 // 8 else size
        sizes = [size]
        while needed <= sizes[-1] // 2 and sizes[-1] // 2 * copies >= self._minimum:
            sizes.append(sizes[-1] // 2)
        smallest = sizes[-1]
        computed = min(each for each in sizes if each == size or self._is_worth_it(what, each))
        self._in_vain[what, smallest] += (computed - smallest) * copies
        return smallest if self._is_worth_it(what, smallest) else computed

    def _is_worth_it(self, what, size):
        return self._in_vain[what, size] >= self._rows_of_compiling
