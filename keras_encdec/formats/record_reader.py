"""What the readers of line-by-line files share."""

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import FileEncoding, undecodable
from keras_encdec.formats.files import InputLines


class RecordReader:
    """Base of readers that give exactly one record for every line, in order, and iterate once.

    A subclass sets `lines` and `_records`, a generator.

    Args:
        encoding: str, or `None` for UTF-8, checked. See `FileEncoding`.
        on_error: "stop" or "keep". Whether a malformed line raises, or gives a record that says so.

    Attributes:
        lines: InputLines, for progress.
        kept: str. What becomes of malformed lines that are kept, for errors; who leaves them out says so here, and
            who has no flag `--on_error` sets it to `None`.
        malformed: int. Malformed lines so far.

    Raises:
        ValueError: when `on_error` is something else.
        InputError: when the encoding cannot be used.
    """

    lines: InputLines
    kept: str | None = "write such lines with a neutral score"

    def __init__(self, encoding: str | None, on_error: str) -> None:
        if on_error not in ("stop", "keep"):
            raise ValueError(f'found on_error={on_error!r}, expected "stop" or "keep"')
        self._encoding, self._keep = FileEncoding(encoding), on_error == "keep"
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
        lines, remedy = lines or self.lines, f", or give --on_error=keep to {self.kept}" if self.kept else ""
        if isinstance(error, UnicodeDecodeError):
            problem = undecodable(error, lines.path, lines.line_number, remedy)
        else:
            problem = InputError(
                error.found, error.expected, f"repair or remove the line{remedy}", lines.path, lines.line_number
            )
        if not self._keep:
            raise problem from None
        self.malformed += 1
        return str(problem)
