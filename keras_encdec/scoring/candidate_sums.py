"""Sums over the candidate words of each source: the denominator of a softmax that is computed for few words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import LayerFunction, compiled_call, power_of_two
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.operations import matmul, store_rows, take_rows
from keras_encdec.backend.types import Tensor
from keras_encdec.models.contract import Decoder
from keras_encdec.scoring.pair_groups import PairGroup
from keras_encdec.scoring.prefix_tree_decoder import prefix_logits

# Candidates in a tile, and the smallest and largest numbers of prefixes in one.
WIDTH, MIN_HEIGHT, MAX_HEIGHT = 256, 16, 128
# Tiles in a call, and in each of its batches: one small product at a time takes longer, as `benchmarks/attention.py`
# (score) measures.
TILES, TOGETHER = 512, 8


class CandidateSums:
    """Computes the results of `PrefixTreeDecoder` from its features, with sums over the candidates of each source.

    The logits of a source are a matrix of its prefixes by its candidates, which is computed in tiles of one size. The
    output layer is computed in float32, whatever the dtype of the model.

    Args:
        decoder: Decoder of a model.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._logits = compiled_call(LayerFunction(self._prefix_logits, decoder))
        self._sums = compiled_call(LayerFunction(self._tile_sums, decoder))

    def __call__(self, features: Tensor, group: PairGroup) -> np.ndarray:
        """Computes the logits of words and of the end of sequence, and the log-sum-exps over candidates.

        Args:
            features: float32 tensor `(slots, width)`, from a `PrefixTreeDecoder` without sums.
            group: PairGroup, with the candidates of its sources.

        Returns:
            float32 array `(3, slots)`, see `PrefixTreeDecoder`.
        """
        previous, parents, sources, batches = group.inputs
        logits = self._logits(features, previous, parents, batches)
        slots = np.unique(group.paths)
        tiles = Tiles.of_prefixes(slots, np.ravel(sources)[slots], group.candidates)
        totals = np.zeros(features.shape[0], np.float32)
        tiles.store(totals, np.concatenate([self._sums_of(features, part) for part in tiles.parts(TILES)]))
        return np.stack([*map(ops.convert_to_numpy, logits), totals])

    def _sums_of(self, features: Tensor, tiles: "Tiles") -> np.ndarray:
        used, height = tiles.slots.shape
        words, slots = np.zeros((TILES, WIDTH), np.int32), np.zeros((TILES, height), np.int32)
        sizes = np.ones(TILES, np.int32)
        words[:used], slots[:used], sizes[:used] = tiles.words, tiles.slots, tiles.sizes
        sums: np.ndarray = ops.convert_to_numpy(self._sums(features, words, sizes, slots, np.int32(used)))
        return sums.reshape(TILES, height)[:used]

    def _prefix_logits(
        self, features: Tensor, previous: Tensor, parents: Tensor, batches: Tensor
    ) -> tuple[Tensor, Tensor]:
        return prefix_logits(*self._output(), previous, parents, batches, features)

    def _tile_sums(self, features: Tensor, words: Tensor, sizes: Tensor, slots: Tensor, used: Tensor) -> Tensor:
        matrix, bias = self._output()
        output = ops.transpose(matrix)
        tiles, height = slots.shape
        columns = ops.arange(WIDTH, dtype="int32")

        def body(batch: Tensor, sums: Tensor) -> tuple[Tensor]:
            numbers = batch * TOGETHER + ops.arange(TOGETHER, dtype="int32")
            ids, rows = (ops.reshape(ops.take(table, numbers, axis=0), (-1,)) for table in (words, slots))
            output_rows = ops.reshape(take_rows(output, ids), (TOGETHER, WIDTH, -1))
            biases = ops.reshape(ops.take(bias, ids), (TOGETHER, 1, WIDTH))
            biases = ops.where(columns < ops.take(sizes, numbers)[:, None, None], biases, -np.inf)
            prefixes = ops.reshape(take_rows(features, rows), (TOGETHER, height, -1))
            logits = matmul(prefixes, ops.transpose(output_rows, (0, 2, 1))) + biases
            new = ops.reshape(ops.logsumexp(logits, axis=-1), (-1,))
            return (store_rows(sums, batch * (TOGETHER * height), new),)

        batches = (used + (TOGETHER - 1)) // TOGETHER
        sums: list[Tensor] = counted_loop(body, batches, ops.zeros((tiles * height,), "float32"))
        return sums[0]

    def _output(self) -> tuple[Tensor, Tensor]:
        matrix, bias = map(ops.convert_to_tensor, self._decoder.output_weights)
        return ops.cast(matrix, "float32"), ops.cast(bias, "float32")


class Tiles(NamedTuple):
    """Parts of the matrices of prefixes by candidates; those of the same prefixes follow one another.

    Attributes:
        slots: int array `(tiles, height)`, the slots of prefixes; the last is repeated in a tile that is not full.
        words: int array `(tiles, WIDTH)`, ids of candidates, padded at the end.
        sizes: int array `(tiles,)`, the number of candidates in each tile, at least 1.
        first: boolean array `(tiles,)`, whether a tile has other prefixes than the one before it.
    """

    slots: np.ndarray
    words: np.ndarray
    sizes: np.ndarray
    first: np.ndarray

    @classmethod
    def of_prefixes(cls, slots: np.ndarray, sources: np.ndarray, candidates: Sequence[np.ndarray]) -> "Tiles":
        """Divides the prefixes and the candidates of each source.

        Args:
            slots: int array `(prefixes,)`, distinct.
            sources: int array `(prefixes,)`, the source of each prefix; every source has at least one.
            candidates: list of int arrays, the candidates of each source, at least one for each.
        """
        slots = slots[np.argsort(sources, kind="stable")]
        prefixes = np.bincount(sources, minlength=len(candidates))
        widths = np.fromiter(map(len, candidates), np.int64, len(candidates))
        height = min(max(power_of_two(len(slots) // len(candidates)), MIN_HEIGHT), MAX_HEIGHT)
        across = -(-widths // WIDTH)
        tiles = -(-prefixes // height) * across
        source = np.repeat(np.arange(len(candidates)), tiles)
        row, column = np.divmod(np.arange(len(source)) - np.repeat(np.cumsum(tiles) - tiles, tiles), across[source])
        index, _ = _ranges(row * height, height, prefixes, source)
        word, sizes = _ranges(column * WIDTH, WIDTH, widths, source)
        return cls(slots[index], np.concatenate(candidates)[word], sizes, column == 0)

    def parts(self, size: int) -> list["Tiles"]:
        """Cuts the tiles into parts of a size, the last of which may be smaller."""
        return [Tiles(*(array[i : i + size] for array in self)) for i in range(0, len(self.slots), size)]

    def store(self, totals: np.ndarray, sums: np.ndarray) -> None:
        """Adds up the sums of the tiles of the same prefixes, and stores them.

        Args:
            totals: float array `(slots,)`, which is changed.
            sums: float array `(tiles, height)`, the log-sum-exps over the candidates of each tile.
        """
        starts = np.flatnonzero(self.first)
        totals[self.slots[starts]] = np.logaddexp.reduceat(sums, starts, axis=0)


def _ranges(begins: np.ndarray, size: int, lengths: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices `(n, size)` into parts that follow one another, and how many of each row are in its part.

    Args:
        begins: int array `(n,)`, the first index of each row within its part.
        size: int.
        lengths: int array, the length of each part.
        part: int array `(n,)`, the part of each row.
    """
    inside = begins[:, None] + np.arange(size)
    offsets = np.cumsum(lengths) - lengths
    last = lengths[part][:, None] - 1
    return offsets[part][:, None] + np.minimum(inside, last), np.minimum(last[:, 0] + 1 - begins, size)
