"""What the readers of line-by-line files share."""

import abc
from collections import namedtuple
from collections.abc import Iterator

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable
from keras_encdec.runtime.files import InputLines
from keras_encdec.runtime.os_errors import FilePath


class RecordReader:
    """Base of readers that give exactly one record for every line, in order, and iterate once.

    A subclass sets `lines` and `_records`, a generator.

    Args:
        encoding: str, or `None` for UTF-8, checked. See `FileEncoding`.
        on_error: "stop" or "keep". Whether a malformed line raises, or gives a record that says so. `None` raises, too,
            for users who have no flag `--on_error`: the error does not name it.

    Attributes:
        lines: InputLines, for progress.
        kept: str. What becomes of malformed lines that are kept, for errors; who leaves them out says so here.
        malformed: int. Malformed lines so far.

    Raises:
        ValueError: when `on_error` is something else.
        InputError: when the encoding cannot be used.
    """

    lines: InputLines
    kept = "write such lines with a neutral score"

    def __init__(self, encoding: str | None, on_error: str | None) -> None:
        if on_error not in ("stop", "keep", None):
            raise ValueError(f'found on_error={on_error!r}, expected "stop" or "keep"')
        self._encoding, self._on_error = FileEncoding(encoding), on_error
        self.malformed = 0

    def __iter__(self):
        return self._records

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._records.close()
        self.lines.close()

    def _problem(self, error, lines=None):
        """Counts a malformed line and says what is wrong with it, or raises that.

        Args:
            error: MalformedLine or UnicodeDecodeError.
            lines: InputLines that it stands in. Defaults to `self.lines`.
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


PairRecord = namedtuple("PairRecord", "raw source target problem")
PairRecord.__doc__ = """One pair of phrases or sentences.

    Attributes:
        raw: bytes. The line as it stands, without its line feed; of two files, both lines and a tab between.
        source: str; empty when malformed.
        target: str; empty when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """


class PairReader(RecordReader):
    """Base of readers of plain pairs of text: a subclass has `records`, and opens further files if need be.

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
    def records(self) -> Iterator[PairRecord]:
        """Yields a record for each line of `lines`, in order."""

    def decode(self, data: bytes, begins_line: bool = True) -> str:
        """Text of the current line, without the byte-order mark that may begin the file.

        Args:
            data: bytes.
            begins_line: bool. Whether they are the line's first. Defaults to `True`.

        Raises:
            UnicodeDecodeError: where bytes are not UTF-8 and no encoding was declared.
        """
        text = data.decode(self._encoding.codec, self._encoding.errors)
        if begins_line and self._encoding.is_utf8 and self.lines.line_number == 1:
            return text.removeprefix(BYTE_ORDER_MARK)
        return text

    def malformed_record(self, raw: bytes, error: ValueError, lines: InputLines | None = None) -> PairRecord:
        """The record of a line that cannot be used, or an error, as `on_error` says.

        Args:
            raw: bytes. The line.
            error: MalformedLine or UnicodeDecodeError.
            lines: InputLines that it stands in. Defaults to `self.lines`.

        Raises:
            InputError: where malformed lines stop.
        """
        return PairRecord(raw, "", "", self._problem(error, lines))
