"""Sorts, merges and counts extracted phrase pairs on disk.

A run is a file of lines `source ||| target ||| alignment`, tab, count, in the order of their bytes. All runs are cut
at the same sources into ranges that fit in memory, so that ranges can be merged in parallel.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

SEPARATOR = b" ||| "
# Number of distinct pairs at which a run is written; they take about 150 MB of memory.
PAIRS_IN_MEMORY = 500_000
# Number of bytes of runs that are merged at once; they take about 100 MB of memory.
RANGE_BYTES = 1 << 24
_BLOCK = 1 << 16


class Run(NamedTuple):
    """A sorted file of extracted phrase pairs.

    Attributes:
        path: str.
        keys: list of bytes. The first key of each block.
        offsets: list of int. The byte position of each block, and the size of the file.
        lines: int. Number of lines.
    """

    path: str
    keys: list[bytes]
    offsets: list[int]
    lines: int


class Range(NamedTuple):
    """The part of all runs that lies between two sources.

    Attributes:
        first: bytes. The range begins with the first line that is not less than this; empty for no bound.
        end: bytes. The range ends before the first line that is not less than this; `None` for no bound.
        segments: list of `(path, start, end)`, the byte positions in each run that contain the range.
    """

    first: bytes
    end: bytes | None
    segments: list[tuple[str, int, int]]

    @property
    def size(self) -> int:
        """The number of bytes in the segments."""
        return sum(end - start for _, start, end in self.segments)


def write_runs(keys: Iterable[bytes], path: str) -> list[Run]:
    """Counts equal keys, see `phrase_pair_keys`, and writes them to sorted runs, whose names begin with `path`."""
    counts: Counter[bytes] = Counter()
    runs: list[Run] = []
    for key in keys:
        counts[key] += 1
        if len(counts) >= PAIRS_IN_MEMORY:
            runs.append(_write_run(counts, f"{path}.{len(runs)}"))
            counts.clear()
    if counts:
        runs.append(_write_run(counts, f"{path}.{len(runs)}"))
    return runs


def plan_ranges(runs: Sequence[Run]) -> list[Range]:
    """Cuts runs into ranges of whole sources, in order, of about 16 MiB; only that of a single source can be larger."""
    blocks = sorted(
        (key, end - start)
        for run in runs
        for key, start, end in zip(run.keys, run.offsets[:-1], run.offsets[1:], strict=True)
    )
    cuts: list[bytes] = []
    size = 0
    for key, length in blocks:
        if size >= RANGE_BYTES:
            cut = key[: key.index(SEPARATOR)] + SEPARATOR
            if not cuts or cut > cuts[-1]:
                cuts.append(cut)
                size = 0
        size += length
    ranges = []
    for first, end in zip([b"", *cuts], [*cuts, None], strict=True):
        segments = []
        for run in runs:
            start_block = max(bisect_left(run.keys, first) - 1, 0)
            end_block = len(run.keys) if end is None else bisect_left(run.keys, end)
            if start_block < end_block:
                segments.append((run.path, run.offsets[start_block], run.offsets[end_block]))
        ranges.append(Range(first, end, segments))
    return ranges


def merged(part: Range) -> Iterator[tuple[bytes, int]]:
    """Merges the runs of a range: yields each key and its count in all runs, in the order of the keys."""
    lines: list[bytes] = []
    for path, start, end in part.segments:
        with open(path, "rb") as file:
            file.seek(start)
            segment = file.read(end - start).split(b"\n")
        segment.pop()  # the empty text after the last line feed
        segment_end = len(segment) if part.end is None else bisect_left(segment, part.end)
        lines += segment[bisect_left(segment, part.first) : segment_end]
    lines.sort()  # takes linear time, as each segment is sorted
    for key, group in groupby((line.split(b"\t") for line in lines), key=lambda fields: fields[0]):
        yield key, sum(int(count) for _, count in group)


def _write_run(counts: Counter[bytes], path: str) -> Run:
    keys: list[bytes] = []
    offsets: list[int] = []
    block: list[bytes] = []
    size = written = 0
    with open(path, "wb") as file:
        for key in sorted(counts):
            if not block:
                keys.append(key)
                offsets.append(written)
            line = b"%b\t%d\n" % (key, counts[key])
            block.append(line)
            size += len(line)
            if size >= _BLOCK:
                written += file.write(b"".join(block))
                block, size = [], 0
        written += file.write(b"".join(block))
    return Run(path, keys, [*offsets, written], len(counts))


# Number of phrase pairs whose targets are counted at once, in about 100 MB of memory.
PAIRS_IN_PARTITION = 1_000_000
_ROW = np.dtype([("low", "<u8"), ("high", "<u8"), ("count", "<i8")])
_TOTALS = np.dtype([("count", "<i8"), ("distinct", "<i8")])


def write_targets(targets: Sequence[bytes], counts: Integers, partitions: int, path: str) -> tuple[Integers, Integers]:
    """Writes the targets of a part of the table, partition by partition.

    Args:
        targets: list of bytes. The target of each pair of the part.
        counts: int64 array. How often each pair was extracted.
        partitions: int. Number of partitions.
        path: str. The file to write.

    Returns:
        tuple: int64 array `(partitions,)`, the number of rows in each partition; and int64 array `(pairs,)`, the order:
        row n of the file belongs to pair order[n].
    """
    digests = b"".join(hashlib.blake2b(target, digest_size=16).digest() for target in targets)
    rows = np.empty(len(targets), _ROW)
    halves = np.frombuffer(digests, "<u8").reshape(-1, 2)
    rows["low"], rows["high"], rows["count"] = halves[:, 0], halves[:, 1], counts
    partition = (rows["low"] % np.uint64(partitions)).astype(np.int64)
    order = np.argsort(partition, kind="stable")
    rows[order].tofile(path)
    return np.bincount(partition, minlength=partitions), order


def count_partition(paths: Sequence[str], rows: Integers, partition: int, path: str) -> None:
    """Counts the targets of a partition.

    Args:
        paths: list of str. The files of `write_targets`, in the table's order.
        rows: int64 array `(parts, partitions)`. The number of rows of each partition in each file.
        partition: int.
        path: str. The file to write. For each row of the partition it gets how often the target was extracted, and the
            number of distinct pairs with the target.
    """
    starts = rows[:, :partition].sum(axis=1)
    parts = [
        np.fromfile(file, _ROW, count, offset=start * _ROW.itemsize)
        for file, start, count in zip(paths, starts.tolist(), rows[:, partition].tolist(), strict=True)
    ]
    targets = np.concatenate(parts)
    order = np.lexsort((targets["low"], targets["high"]))
    ordered = targets[order]
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered["low"][1:] != ordered["low"][:-1]) | (ordered["high"][1:] != ordered["high"][:-1])
    group = np.cumsum(new) - 1
    totals = np.empty(len(ordered), _TOTALS)
    begins = np.flatnonzero(new)
    totals["count"][order] = np.add.reduceat(ordered["count"], begins)[group]
    totals["distinct"][order] = np.bincount(group)[group]
    totals.tofile(path)


def read_target_counts(paths: Sequence[str], rows: Integers, part: int, order: Integers) -> tuple[Integers, Integers]:
    """Reads the counts of the targets of a part of the table from the files of `count_partition`.

    Returns:
        tuple: two int64 arrays with an entry for each pair of the part: how often its target was extracted, and the
        number of distinct pairs with that target.
    """
    starts = rows[:part].sum(axis=0)
    counts = np.concatenate(
        [
            np.fromfile(file, _TOTALS, count, offset=start * _TOTALS.itemsize)
            for file, start, count in zip(paths, starts.tolist(), rows[part].tolist(), strict=True)
        ]
    )
    totals = np.empty_like(counts)
    totals[order] = counts
    return totals["count"], totals["distinct"]
