"""A file written again with scores on its lines, many lines side by side."""

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor

from keras_encdec.cli.progress import ReadingProgress
from keras_encdec.in_order import in_order


def windows(reader, size):
    """Yields lists of so many records of a reader."""
    records = iter(reader)
    while window := list(itertools.islice(records, size)):
        yield window


def write_rows(rows, windows, lines, output, side_by_side):
    """Writes the lines that `rows` makes of windows, in order, and closes it.

    While some windows are scored, others are read and written.

    Args:
        rows: callable from a window to the lines it is to be, bytes without line feed; has `close`.
        windows: iterable.
        lines: InputLines that the windows are read from.
        output: binary file, open for writing.
        side_by_side: int. Windows in work at a time.

    Returns:
        ReadingProgress, of the lines written.
    """
    started = False
    with (
        ReadingProgress(lines) as progress,
        ThreadPoolExecutor(side_by_side) as executor,
        contextlib.closing(rows),  # first of all, so that after an error nothing is waited for
    ):
        for written in in_order(executor, rows, windows, side_by_side):
            output.write(b"\n" * started + b"\n".join(written))
            progress.add(len(written))
            started = True
        if lines.ended_with_newline:
            output.write(b"\n")
    return progress


def summary(progress, result):
    """The sentence that a command ends with: lines, seconds, lines a second, and what came of them."""
    return f"{progress.count:,} lines in {progress.seconds:,.1f} s, {progress.rate:,.0f} lines/s: {result}"
