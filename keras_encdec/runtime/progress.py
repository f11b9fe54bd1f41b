"""How far a job has come that reads a file."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable
from typing import Protocol, Self, TextIO

from tqdm import tqdm

_MINUTE = 60.0


class CountedInput(Protocol):
    """A file that is being read, such as InputLines.

    Attributes:
        bytes_read: int. Bytes read so far of the file on disk.
        bytes_total: int. Size of the file on disk, 0 when it is a pipe.
    """

    @property
    def bytes_read(self) -> int: ...

    @property
    def bytes_total(self) -> int: ...


@dataclasses.dataclass
class CountedWork:
    """Work of a known size that is no file, as progress counts it.

    Attributes:
        bytes_total: int. Size of all of it, in bytes or in what else it is measured in.
        bytes_read: int. Size of what is done.
    """

    bytes_total: int
    bytes_read: int = 0


class Progress:
    """Counts lines, and shows nothing: what a job reports to unless it is told otherwise.

    A job makes it of the file that it reads, adds to it, and closes it in the end. A subclass shows it.

    Args:
        lines: CountedInput that is being read, such as InputLines.
        unit: str. What is counted. Defaults to `"lines"`.

    Attributes:
        count: int. Lines done.
    """

    def __init__(self, lines: CountedInput, unit: str = "lines") -> None:
        self.lines, self.unit, self.count, self._start = lines, unit, 0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Lines a second since the start."""
        return self.count / max(self.seconds, 1e-9)

    def add(self, count: int) -> None:
        """Counts more lines."""
        self.count += count

    def close(self) -> None:
        """Ends it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


#: What a job of several steps calls at each: with what is counted, and its name.
ShowProgress = Callable[[CountedInput, str], Progress]


class ReadingProgress(Progress):
    """Shows rate and time left: a bar on a terminal, elsewhere one plain line a minute.

    What is left is told from the bytes of the file on disk, as nobody knows how many lines a gzipped table has.

    Args:
        lines: CountedInput that is being read, such as InputLines.
        unit: str. What is counted. Defaults to `"lines"`.
        stream: text file to write to. Defaults to `None`: standard error.
        pause: float. Seconds between plain lines. Defaults to `60`.
    """

    def __init__(
        self, lines: CountedInput, unit: str = "lines", stream: TextIO | None = None, pause: float = _MINUTE
    ) -> None:
        super().__init__(lines, unit)
        self._stream, self._pause = stream or sys.stderr, pause
        self._next_line = pause
        self._bar = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=lines.bytes_total or None, unit="B", unit_scale=True, dynamic_ncols=True, file=self._stream
            )

    def add(self, count: int) -> None:
        super().add(count)
        if self._bar is not None:
            self._bar.update(self.lines.bytes_read - self._bar.n)
            self._bar.set_postfix_str(f"{self.rate:,.0f} {self.unit}/s")
        elif self.seconds >= self._next_line:
            self._next_line = self.seconds + self._pause
            print(self._line(), file=self._stream, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _line(self):
        rate = f"{self.rate:,.0f}" if self.rate >= 1 else f"{self.rate:.2f}"
        done = f"{self.count:,} {self.unit}, {rate} {self.unit}/s"
        if not self.lines.bytes_total:  # a pipe, of any length
            return done
        share = self.lines.bytes_read / self.lines.bytes_total
        left = self.seconds * (1 - share) / max(share, 1e-9)
        return f"{done}, {share:.0%} read, about {_duration(left)} left"


def _duration(seconds):
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


@dataclasses.dataclass(frozen=True)
class FileSummary:
    """What a job did that writes a file line by line.

    Attributes:
        lines: int. Lines written.
        seconds: float.
        output: the file.

    Example:

    >>> print(FileSummary(lines=3000, seconds=2.0, output="scored.gz"))
    3,000 lines in 2.0 s, 1,500 lines/s: scored.gz
    """

    lines: int
    seconds: float
    output: str | os.PathLike[str]

    @property
    def rate(self) -> float:
        """Lines a second."""
        return self.lines / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        return f"{self.lines:,} lines in {self.seconds:,.1f} s, {self.rate:,.0f} lines/s: {self._result}"

    @property
    def _result(self):
        return "standard output" if os.fspath(self.output) == "-" else self.output
