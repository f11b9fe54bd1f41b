"""Progress of a job that reads a file: lines done, rate and time left; and the summary at its end."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable
from typing import ClassVar, Protocol, Self, TextIO

from tqdm import tqdm

from keras_encdec.runtime.progress_state import current_record

_MINUTE = 60.0


class CountedInput(Protocol):
    """A file that is being read, such as InputLines.

    Attributes:
        size: int. Size of the file on disk in bytes, 0 when it is a pipe.
        size_done: int. Bytes read so far of the file on disk.
        done: str. How progress describes the part that is done, such as "read".
    """

    @property
    def done(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def size_done(self) -> int: ...


@dataclasses.dataclass
class CountedWork:
    """Work of a known size that is not a file, such as a list of sentences.

    Attributes:
        size: int. Size of the work, such as a number of lines or of rounds.
        size_done: int. Size of the part that is done, in the same unit.
    """

    size: int
    size_done: int = 0
    done: ClassVar[str] = "done"


class Progress:
    """Counts lines and shows nothing; the default of every job.

    A job has an argument `progress`: this class, a subclass that shows the progress, or a function that returns an
    instance. The job calls it at the beginning of each step, with the file that it reads and often with the unit that
    it counts. It then calls `add` with the number of lines done, and `close` at the end.

    Args:
        lines: CountedInput that is being read, such as InputLines.
        unit: str. What is counted. Defaults to `"lines"`.

    Attributes:
        count: int. Lines done.
        before: int. Lines among them that an interrupted earlier process had done. A job that resumes increases it.
    """

    def __init__(self, lines: CountedInput, unit: str = "lines") -> None:
        self.lines, self.unit, self.count, self.before, self._start = lines, unit, 0, 0, time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Lines per second since the start, without those that were done before."""
        return (self.count - self.before) / max(self.seconds, 1e-9)

    def add(self, count: int) -> None:
        """Adds the number of lines that were done since the last call."""
        self.count += count

    def close(self) -> None:
        """Ends the progress. The base class does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


#: Starts to show the progress of one step of a job. Its arguments are the step's input and the unit that is counted.
ShowProgress = Callable[[CountedInput, str], Progress]


class ReadingProgress(Progress):
    """Shows the rate and the time left: as a bar on a terminal, otherwise as one plain line per minute.

    It also updates the record of the task, if there is one, see `keras_encdec.runtime.progress_state`.

    The time left is estimated from the bytes read of the file on disk, because the number of lines is not known.

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
        self._record = current_record()
        if self._record is not None:
            self._record.begin(unit)
        self._bar = None
        if self._stream.isatty():
            self._bar = tqdm(
                total=lines.size or None,
                unit="B",
                unit_scale=True,
                dynamic_ncols=True,
                file=self._stream,
                # Work that is not a file has no bytes per second, which is tqdm's own rate.
                bar_format=None if lines.done == "read" else "{l_bar}{bar}| [{elapsed}<{remaining}{postfix}]",
            )

    def add(self, count: int) -> None:
        super().add(count)
        if self._record is not None:
            total = self.lines.size
            share = self.lines.size_done / total if total else None
            self._record.update(self.count, share=share, before=self.before)
        if self._bar is not None:
            self._bar.update(self.lines.size_done - self._bar.n)
            self._bar.set_postfix_str(self._rate())
        elif self.seconds >= self._next_line:
            self._next_line = self.seconds + self._pause
            print(self._line(), file=self._stream, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _line(self) -> str:
        done = f"{counted(self.count, self.unit)}, {self._rate()}"
        if not self.lines.size or self.count == self.before:  # the length of a pipe, or this command's rate, is unknown
            return done
        share = self.lines.size_done / self.lines.size
        left = self.seconds * (1 - share) / max(share * (1 - self.before / self.count), 1e-9)
        return f"{done}, {share:.0%} {self.lines.done}, about {_duration(left)} left"

    def _rate(self) -> str:
        if 0 < self.rate < 1:  # such as rounds of alignment
            return f"{1 / self.rate:,.0f} s each"
        return f"{self.rate:,.0f} {self.unit}/s"


def counted(count: int, unit: str) -> str:
    """Returns a number with its unit, given in the plural; for 1, the first word that ends in "s" becomes singular.

    Example:

    >>> counted(1, "rounds of alignment"), counted(2000, "entries"), counted(1, "entries"), counted(1, "bad lines")
    ('1 round of alignment', '2,000 entries', '1 entry', '1 bad line')
    """
    if count == 1:
        plural = next(word for word in unit.split(" ") if word.endswith("s"))
        ending, singular = next(pair for pair in _ENDINGS if plural.endswith(pair[0]))
        unit = unit.replace(plural, plural.removesuffix(ending) + singular, 1)
    return f"{count:,} {unit}"


# Endings in the plural and in the singular.
_ENDINGS = (("theses", "thesis"), ("ies", "y"), ("s", ""))


def _duration(seconds: float) -> str:
    # The lines that were read last are still being processed, so some time is always left.
    minutes = max(1, round(seconds / 60))
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


@dataclasses.dataclass(frozen=True)
class FileSummary:
    """Result of a job that writes a file line by line.

    Attributes:
        lines: int. Lines written.
        seconds: float. Duration of the job.
        output: the path of the file.

    Example:

    >>> print(FileSummary(lines=3000, seconds=2.0, output="scored.gz"))
    3,000 lines in 2.0 s, 1,500 lines/s: scored.gz
    """

    lines: int
    seconds: float
    output: str | os.PathLike[str]

    @property
    def unit(self) -> str:
        """What `lines` counts, in the plural."""
        return "lines"

    @property
    def rate(self) -> float:
        """Lines per second."""
        return self.lines / max(self.seconds, 1e-9)

    def __str__(self) -> str:
        rate = f"{self.rate:.2f}" if 0 < self.rate < 1 else f"{self.rate:,.0f}"
        return f"{counted(self.lines, self.unit)} in {self.seconds:,.1f} s, {rate} {self.unit}/s: {self._result}"

    @property
    def _result(self) -> str | os.PathLike[str]:
        return "standard output" if os.fspath(self.output) == "-" else self.output


@dataclasses.dataclass(frozen=True)
class ShardedFileSummary(FileSummary):
    """Result of a job that writes a file line by line, and may have done a part of it in an earlier call.

    Attributes:
        lines, seconds, output: see `FileSummary`.
        before: int. Lines in shards that an interrupted earlier call had done. Defaults to `0`.
    """

    before: int = dataclasses.field(default=0, kw_only=True)

    @property
    def rate(self) -> float:
        """Lines per second, without those that were done before."""
        return (self.lines - self.before) / max(self.seconds, 1e-9)
