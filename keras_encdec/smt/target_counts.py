"""Counts of target phrases over a table that is sorted by sources, without sorting it again.

Target phrases are named by fingerprints of 128 bits and spread over partitions that fit in memory. Everything is
read and written in the table's own order.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

# Phrase pairs whose targets are counted in memory at once: about 100 MB.
PAIRS_IN_PARTITION = 1_000_000
_ROW = np.dtype([("low", "<u8"), ("high", "<u8"), ("count", "<i8")])
_TOTALS = np.dtype([("count", "<i8"), ("distinct", "<i8")])


def write_targets(
    targets: Sequence[bytes], counts: np.ndarray, partitions: int, path: str
) -> tuple[np.ndarray, np.ndarray]:
    """Writes the targets of a part of the table, partition by partition.

    Args:
        targets: list of bytes. The target of each pair of the part.
        counts: int64 array. How often each pair was extracted.
        partitions: int. Number of partitions.
        path: str. The file to write.

    Returns:
        tuple: int64 array, the rows of each partition; and the order, an int64 array: row n in the file is that of
        the pair order[n].
    """
    prints = b"".join(hashlib.blake2b(target, digest_size=16).digest() for target in targets)
    rows = np.empty(len(targets), _ROW)
    halves = np.frombuffer(prints, "<u8").reshape(-1, 2)
    rows["low"], rows["high"], rows["count"] = halves[:, 0], halves[:, 1], counts
    partition = (rows["low"] % np.uint64(partitions)).astype(np.int64)
    order = np.argsort(partition, kind="stable")
    rows[order].tofile(path)
    return np.bincount(partition, minlength=partitions), order


def count_partition(paths: Sequence[str], rows: np.ndarray, partition: int, path: str) -> None:
    """Counts the targets of a partition.

    Args:
        paths: list of str. The files of `write_targets`, in the table's order.
        rows: int64 array `(parts, partitions)`. The rows of each in each file.
        partition: int.
        path: str. The file to write: for each row of the partition, how often its target was extracted, and how many
            distinct pairs it is in.
    """
    starts = rows[:, :partition].sum(axis=1)
    parts = [
        np.fromfile(file, _ROW, count, offset=start * _ROW.itemsize)
        for file, start, count in zip(paths, starts.tolist(), rows[:, partition].tolist(), strict=True)
    ]
    found = np.concatenate(parts)
    order = np.lexsort((found["low"], found["high"]))
    ordered = found[order]
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered["low"][1:] != ordered["low"][:-1]) | (ordered["high"][1:] != ordered["high"][:-1])
    group = np.cumsum(new) - 1
    totals = np.empty(len(ordered), _TOTALS)
    begins = np.flatnonzero(new)
    if len(begins):
        totals["count"][order] = np.add.reduceat(ordered["count"], begins)[group]
        totals["distinct"][order] = np.bincount(group)[group]
    totals.tofile(path)


def read_target_counts(
    paths: Sequence[str], rows: np.ndarray, part: int, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The counts of the targets of a part of the table.

    Args:
        paths: list of str. The files of `count_partition`.
        rows: int64 array `(parts, partitions)`, as there.
        part: int.
        order: of `write_targets`.

    Returns:
        two int64 arrays: for each pair of the part how often its target was extracted, and how many distinct pairs it
        is in.
    """
    starts = rows[:part].sum(axis=0)
    found = np.concatenate(
        [
            np.fromfile(file, _TOTALS, count, offset=start * _TOTALS.itemsize)
            for file, start, count in zip(paths, starts.tolist(), rows[part].tolist(), strict=True)
        ]
    )
    totals = np.empty_like(found)
    totals[order] = found
    return totals["count"], totals["distinct"]
