"""A file written again with scores on its lines, many lines side by side."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

from keras_encdec.formats import InputLines, Record
from keras_encdec.parallel import in_order, threads
from keras_encdec.progress import Progress


class WindowScorer(Protocol):
    """What makes the new lines of a window of records, such as a RecordScorer."""

    def __call__(self, window: Any) -> Sequence[list[bytes]]:
        """The window's lines, without line feed, for each file that is written. Called in several threads."""
        ...

    def close(self) -> None:
        """Drops what is still to be computed."""
        ...


def windows(records: Iterable[Record], size: int) -> Iterator[list[Record]]:
    """Yields lists of consecutive records, each of the size but the last."""
    records = iter(records)
    while window := list(itertools.islice(records, size)):
        yield window


def write_scored_lines(
    scorer: WindowScorer,
    windows: Iterable[Any],
    lines: InputLines,
    outputs: Sequence[BinaryIO],
    side_by_side: int,
    progress: Callable[[InputLines], Progress] = Progress,
) -> Progress:
    """Writes the lines that a scorer makes of windows, in order, and closes it.

    While some windows are scored, others are read and written.

    Args:
        scorer: WindowScorer.
        windows: iterable of what the scorer takes.
        lines: InputLines that the windows are read from.
        outputs: list of binary files, open for writing, as many as the scorer makes lists of lines.
        side_by_side: int. Windows in work at a time.
        progress: callable of `lines`, which gives what is told of the lines written. Defaults to `Progress`.

    Returns:
        Progress, of the lines written.
    """
    started = False
    with (
        progress(lines) as written,
        threads(side_by_side) as executor,
        contextlib.closing(scorer),  # first of all, so that after an error nothing is waited for
    ):
        for new_lines in in_order(executor, scorer, windows, side_by_side):
            for output, part in zip(outputs, new_lines, strict=True):
                output.write(b"\n" * started + b"\n".join(part))
            written.add(len(new_lines[0]))
            started = True
        if lines.ended_with_newline:
            for output in outputs:
                output.write(b"\n")
    return written
