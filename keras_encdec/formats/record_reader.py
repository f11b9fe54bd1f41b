"""What the readers of line-by-line files share."""

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import FileEncoding, undecodable
from keras_encdec.formats.files import InputLines


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
