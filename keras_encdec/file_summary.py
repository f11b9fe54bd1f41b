"""What is said of a file that a job has written."""

import dataclasses
import os


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
