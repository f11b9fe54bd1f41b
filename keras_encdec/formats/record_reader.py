"""Base classes of readers, which yield a record for every line of a file."""

import abc
from collections.abc import Generator, Iterator
from typing import Generic, NamedTuple, Self, TypeVar

from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.progress_state import count_errors

#: The type of the records that a reader yields.
LineRecord = TypeVar("LineRecord", covariant=True)


# What a command does with malformed lines that it keeps, for the text of errors.
WITH_NEUTRAL_SCORE = "write such lines with a neutral score, or unchanged if they have no field for it"
LEFT_OUT = "leave such lines out"


class RecordReader(Generic[LineRecord]):
    """Base class of readers, which yield exactly one record for every line, in order. A reader can be iterated once.

    A subclass sets `lines` and `_records`, a generator of the records.

    Args:
        encoding: str, or `None` for UTF-8, checked. See `FileEncoding`.
        on_error: "stop" or "keep". At a malformed line, "stop" raises an error, and "keep" yields a record with a
            `problem`. `None` raises an error that does not name `--on_error`, for callers without that flag.

    Attributes:
        lines: InputLines, for progress.
        kept: str. How the caller treats malformed lines with "keep", for the text of errors. A caller that leaves such
            lines out sets it.
        malformed: int. Malformed lines so far.
        last_problem: str. The sentence about the last of them; empty before the first.
        counts_errors: bool. Whether malformed lines count as errors in the progress of the task. A caller that reads
            lines which are also read elsewhere sets it to `False`. Defaults to `True`.
        num_scores: int. Number of scores on each line; 0 before the first well-formed line, and for a format without
            scores. A caller that starts in the middle of a file sets it and `num_scores_line` from the lines before.
        num_scores_line: int. Number of the line that decided `num_scores`; 0 if there is none.

    Raises:
        ValueError: for any other `on_error`.
        InputError: if the encoding cannot be used.
    """

    lines: InputLines
    _records: Generator[LineRecord]
    kept = WITH_NEUTRAL_SCORE

    def __init__(self, encoding: str | None, on_error: str | None) -> None:
        if on_error not in ("stop", "keep", None):
            raise ValueError(f"found on_error={on_error!r}, expected one of stop, keep")
        self._encoding, self._on_error = FileEncoding(encoding), on_error
        self.malformed, self.last_problem, self.counts_errors = 0, "", True
        self.num_scores = self.num_scores_line = 0

    def __iter__(self) -> Iterator[LineRecord]:
        return self._records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._records.close()
        self.lines.close()

    def _problem(self, error: "MalformedLine | UnicodeDecodeError", lines: InputLines | None = None) -> str:
        """Counts a malformed line, and returns a sentence about its error, or raises the error."""
        lines = lines or self.lines
        remedy = f", or give --on_error=keep to {self.kept}" if self._on_error else ""
        if isinstance(error, UnicodeDecodeError):
            problem: InputError = undecodable(error, lines.path, lines.line_number, remedy)
        else:
            problem = lines.error(error.found, error.expected, f"{error.remedy(lines.line_number)}{remedy}")
        if self._on_error != "keep":
            raise problem from None
        self.malformed, self.last_problem = self.malformed + 1, str(problem)
        if self.counts_errors:
            count_errors(1, self.last_problem)
        return self.last_problem


class MalformedLine(ValueError):
    """Error raised for a line that a parser cannot use.

    Args:
        found: str. What was found.
        expected: str. What was expected.
        file: str. What the file should be, such as "a phrase table". An error on the first line suggests that it is
            something else. Optional.
    """

    def __init__(self, found: str, expected: str, file: str = "") -> None:
        super().__init__(f"{found}, {expected}")
        self.found, self.expected, self._file = found, expected, file

    def remedy(self, line: int) -> str:
        """Returns what the user can do about this error in a line with this number, from 1."""
        return f"check that the file is {self._file}" if self._file and line == 1 else "repair or remove the line"


def wrong_number_of_fields(number: int, expected: str, file: str, is_blank: bool) -> MalformedLine:
    """Returns the error about a wrong number of fields; a single field suggests that the file is not a `file`."""
    if is_blank:
        return MalformedLine("found a blank line", expected)
    return MalformedLine(f"found {number} field{'s' * (number > 1)}", expected, file if number == 1 else "")


class PairRecord(NamedTuple):
    """One pair of phrases or sentences.

    Attributes:
        raw: bytes. The line, without its line feed; for two files, both lines with a tab between them.
        source: str; empty when malformed.
        target: str; empty when malformed.
        problem: `None`, or a sentence about the error in a malformed line.
    """

    raw: bytes
    source: str
    target: str
    problem: str | None


class PairReader(RecordReader[PairRecord], abc.ABC):
    """Base class of readers of plain text. A subclass defines `records`, and opens further files if it needs them.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding of the file, see `FileEncoding`. Defaults to `None`: UTF-8, and lines with other
            bytes are malformed.
        on_error: str. What to do at a malformed line: "stop" raises an error, "keep" yields a record with a `problem`.
            Defaults to "stop".

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.

    Raises:
        InputError: if the file cannot be read or the encoding cannot be used, and at a malformed line.
    """

    def __init__(self, path: FilePath, encoding: str | None = None, on_error: str = "stop") -> None:
        super().__init__(encoding, on_error)
        self._records, self.lines = self.records(), InputLines(path)

    @abc.abstractmethod
    def records(self) -> Generator[PairRecord]:
        """Yields a record for each line of `lines`, in order."""

    def decode(self, data: bytes, begins_line: bool = True) -> str:
        """Decodes bytes of the current line, and removes a byte-order mark at the beginning of the file.

        Args:
            data: bytes.
            begins_line: bool. Whether the bytes are the beginning of the line. Defaults to `True`.

        Raises:
            UnicodeDecodeError: if the bytes are not UTF-8 and no encoding was declared.
        """
        text = self._encoding.decode(data)
        if begins_line and self._encoding.is_utf8 and self.lines.line_number == 1:
            return text.removeprefix(BYTE_ORDER_MARK)
        return text

    def malformed_record(
        self, raw: bytes, error: MalformedLine | UnicodeDecodeError, lines: InputLines | None = None
    ) -> PairRecord:
        """Returns the record of a malformed line, or raises an error unless such lines are kept.

        Args:
            raw: bytes. The line.
            error: MalformedLine or UnicodeDecodeError.
            lines: InputLines, the file of the line. Defaults to `self.lines`.

        Raises:
            InputError: if `on_error` is not "keep".
        """
        return PairRecord(raw, "", "", self._problem(error, lines))
