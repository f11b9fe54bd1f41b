"""Progress of a command that reads a file."""

import sys
import time

from tqdm import tqdm


class ReadingProgress:
    """A bar with rate and time left for a file that is read line by line; nothing off a terminal.

    The bar counts bytes of the file on disk, as nobody knows how many lines a gzipped table has.

    Args:
        lines: InputLines that is being read.
        unit: str. What is counted a second. Defaults to `"lines"`.
    """

    def __init__(self, lines, unit="lines"):
        self._lines, self._unit = lines, unit
        self.count, self._start = 0, time.monotonic()
        self._bar = tqdm(
            total=lines.bytes_total, unit="B", unit_scale=True, disable=not sys.stderr.isatty(), dynamic_ncols=True
        )

    def add(self, count):
        """Counts so many more."""
        self.count += count
        self._bar.update(self._lines.bytes_read - self._bar.n)
        self._bar.set_postfix_str(f"{self.rate:,.0f} {self._unit}/s")

    @property
    def rate(self):
        """Counted a second since the start."""
        return self.count / max(time.monotonic() - self._start, 1e-9)

    @property
    def seconds(self):
        """Since the start."""
        return time.monotonic() - self._start

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._bar.close()
