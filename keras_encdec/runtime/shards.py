"""Cuts files into shards, on which an engine of `runtime.engines` works."""

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from keras_encdec.runtime.input_lines import FilePart, InputLines, unequal_lines
from keras_encdec.runtime.settings_files import Json

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class Shard:
    """Consecutive lines of the input.

    Attributes:
        number: int, from 0.
        lines: int. Number of lines, in each file.
        parts: tuple of FilePart, one for each file that is read line by line.
        context: what the job tells the work about the preceding lines, picklable. Defaults to `None`.
    """

    number: int
    lines: int
    parts: tuple[FilePart, ...]
    context: Any = None

    @property
    def checksum(self) -> str:
        """The SHA-256 checksum of the lines, in hexadecimal digits."""
        digest = hashlib.sha256()
        for part in self.parts:
            digest.update(b"%d " % len(part.data))
            digest.update(part.data)
        return digest.hexdigest()

    def __str__(self) -> str:
        first = self.parts[0].first_line
        return f"lines {first:,} to {first + self.lines - 1:,}"


@dataclasses.dataclass(frozen=True)
class ShardResult:
    """The result of processing a shard.

    Attributes:
        outputs: tuple of bytes, the lines for each output file, with their line feeds.
        counts: dict of JSON values: what the job's summary needs.
    """

    outputs: tuple[bytes, ...]
    counts: dict[str, Json]


def windows(items: Iterable[Item], size: int, group: Callable[[Item], object] | None = None) -> Iterator[list[Item]]:
    """Yields lists of consecutive items, of which only the last may have fewer than `size`.

    Args:
        items: iterable.
        size: int.
        group: function that takes an item. Neighbours for which it returns the same value, except `None`, stay in the
            same list, unless that would get longer than twice `size`. Optional.

    Example:

    >>> list(windows([1, 2, 2, 2, 3, 4], 2, group=lambda item: item))
    [[1, 2, 2, 2], [3, 4]]
    """
    window: list[Item] = []
    for item in items:
        if len(window) >= size:
            key = group(item) if group else None
            if not group or key is None or key != group(window[-1]) or len(window) == 2 * size:
                yield window
                window = []
        window.append(item)
    if window:
        yield window


def cut(
    inputs: Sequence[InputLines],
    window_lines: int,
    shard_windows: int = 1,
    group: Callable[[bytes], object] | None = None,
) -> Iterator[Shard]:
    """Cuts files into shards while it reads them once.

    Args:
        inputs: list of InputLines, of files with the same number of lines, line n of one belonging to line n of the
            others.
        window_lines: int. Lines that the work takes at once; a shard contains whole `windows`.
        shard_windows: int. Windows in a shard. Defaults to `1`.
        group: function that takes a line of the first file, see `windows`. Optional.

    Raises:
        InputError: if the files cannot be read, or one has more lines than another.
    """
    number, first = 0, 1
    cut_windows = _cut_windows(inputs, window_lines, group)
    while shard := list(itertools.islice(cut_windows, shard_windows)):
        lines = sum(count for count, _ in shard)
        columns = zip(*(window for _, window in shard), strict=True)
        parts = [
            FilePart(os.fspath(file.path), first, b"".join(column))
            for file, column in zip(inputs, columns, strict=True)
        ]
        yield Shard(number, lines, tuple(parts))
        number, first = number + 1, first + lines


def _cut_windows(
    inputs: Sequence[InputLines], size: int, group: Callable[[bytes], object] | None
) -> Iterator[tuple[int, list[bytes]]]:
    """Yields the number of lines of each window, see `windows`, and its lines from each file."""
    first, *others = inputs
    done, held = 0, b""  # `held` is the first line of the next window, if it has been read
    while window := held + first.take(size - bool(held)):
        count, held = first.line_number - done, b""
        if group and count == size:
            last = window[window.rfind(b"\n", 0, -1) + 1 :]
            key, parts = group(last.removesuffix(b"\n")), [window]
            while key is not None and count < 2 * size and (held := first.take(1)):
                if group(held.removesuffix(b"\n")) != key:
                    break
                parts.append(held)
                count, held = count + 1, b""
            window = b"".join(parts)
        done += count
        columns = [window, *(file.take(count) for file in others)]
        if any(file.line_number != done for file in others):
            raise unequal_lines(*inputs)
        yield count, columns
    if any(file.take(1) for file in others):
        raise unequal_lines(*inputs)
