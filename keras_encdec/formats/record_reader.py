"""What the readers of line-by-line files share."""

import abc
from collections.abc import Generator, Iterator
from typing import Generic, NamedTuple, Self, TypeVar

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.runtime.files import InputLines
from keras_encdec.runtime.os_errors import FilePath

#: What a reader makes of a line.
LineRecord = TypeVar("LineRecord", covariant=True)


class RecordReader(Generic[LineRecord]):
    """Base of readers, which give exactly one record for every line, in order. A reader can be iterated once.

    A subclass sets `lines` and `_records`, a generator of the records.

    Args:
        encoding: str, or `None` for UTF-8, checked. See `FileEncoding`.
        on_error: "stop" or "keep". At a malformed line, "stop" raises an error, and "keep" gives a record with a
            `problem`. `None` raises an error that does not name `--on_error`, for callers without that flag.

    Attributes:
        lines: InputLines, for progress.
        kept: str. What the caller does with malformed lines that are kept; errors say it. A caller that leaves such
            lines out sets it.
        malformed: int. Malformed lines so far.

    Raises:
        ValueError: for another `on_error`.
        InputError: when the encoding cannot be used.
    """

    lines: InputLines
    _records: Generator[LineRecord]
    kept = "write such lines with a neutral score"

    def __init__(self, encoding: str | None, on_error: str | None) -> None:
        if on_error not in ("stop", "keep", None):
            raise ValueError(f'found on_error={on_error!r}, expected "stop" or "keep"')
        self._encoding, self._on_error = FileEncoding(encoding), on_error
        self.malformed = 0

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
        """Counts a malformed line and returns the sentence that says what is wrong with it, or raises it as an error.

        Args:
            error: MalformedLine or UnicodeDecodeError.
            lines: InputLines, the file of the line. Defaults to `self.lines`.
        """
        lines = lines or self.lines
        remedy = f", or give --on_error=keep to {self.kept}" if self._on_error else ""
        if isinstance(error, UnicodeDecodeError):
            problem = undecodable(error, lines.path, lines.line_number, remedy)
        else:
            problem = InputError(
                error.found, error.expected, f"repair or remove the line{remedy}", lines.path, lines.line_number
            )
        if self._on_error != "keep":
            raise problem from None
        self.malformed += 1
        return str(problem)


class MalformedLine(ValueError):
    """A line that a format's parser cannot use.

    Args:
        found: str. What was found.
        expected: str. What was expected.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, {expected}")
        self.found, self.expected = found, expected


class PairRecord(NamedTuple):
    """One pair of phrases or sentences.

    Attributes:
        raw: bytes. The line as it stands, without its line feed; of two files, both lines and a tab between.
        source: str; empty when malformed.
        target: str; empty when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """

    raw: bytes
    source: str
    target: str
    problem: str | None


class PairReader(RecordReader[PairRecord]):
    """Base of readers of plain pairs of text. A subclass defines `records`, and opens further files if it needs them.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The file's encoding; bytes that it cannot decode are carried through as lone
            surrogates. Defaults to `None`: UTF-8, and other bytes are malformed.
        on_error: str. What a malformed line does: "stop" raises, "keep" gives a record that says so.
            Defaults to "stop".

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.

    Raises:
        InputError: when the file cannot be read or the encoding cannot be used; on a malformed line.
    """

    def __init__(self, path: FilePath, encoding: str | None = None, on_error: str = "stop") -> None:
        super().__init__(encoding, on_error)
        self._records, self.lines = self.records(), InputLines(path)

    @abc.abstractmethod
    def records(self) -> Generator[PairRecord]:
        """Yields a record for each line of `lines`, in order."""

    def decode(self, data: bytes, begins_line: bool = True) -> str:
        """Decodes bytes of the current line, and leaves out the byte-order mark that may begin the file.

        Args:
            data: bytes.
            begins_line: bool. Whether the line begins with them. Defaults to `True`.

        Raises:
            UnicodeDecodeError: if the bytes are not UTF-8 and no encoding was declared.
        """
        text = data.decode(self._encoding.codec, self._encoding.errors)
        if begins_line and self._encoding.is_utf8 and self.lines.line_number == 1:
            return text.removeprefix(BYTE_ORDER_MARK)
        return text

    def malformed_record(
        self, raw: bytes, error: MalformedLine | UnicodeDecodeError, lines: InputLines | None = None
    ) -> PairRecord:
        """The record of a malformed line; raises an error instead unless such lines are kept.

        Args:
            raw: bytes. The line.
            error: MalformedLine or UnicodeDecodeError.
            lines: InputLines, the file of the line. Defaults to `self.lines`.

        Raises:
            InputError: if `on_error` is not "keep".
        """
        return PairRecord(raw, "", "", self._problem(error, lines))
