"""Moses n-best lists: lines in, hypotheses and their features out."""

from collections import namedtuple

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import FileEncoding, undecodable
from keras_encdec.formats.files import InputLines
from keras_encdec.formats.nbest_line import MalformedLine, parse_nbest_line

NBestRecord = namedtuple("NBestRecord", "raw id hypothesis features total problem")
NBestRecord.__doc__ = """One line of an n-best list.

    Attributes:
        raw: bytes. The line as it stands, without its line feed.
        id: int. Number of the source sentence, from 0; `None` when malformed.
        hypothesis: str. The translation, still escaped and factored; empty when malformed.
        features: bytes. The third field without the spaces around it; empty when malformed.
        total: float. The hypothesis's total as it stands there; `None` when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """


class NBestReader:
    """Reads an n-best list: every line of the file gives exactly one record, in order.

    A line is `id ||| hypothesis ||| Name= v [v ...] ... ||| total [||| segmentation] [||| alignment]`.
    Blank lines, lines with another number of fields, with an id or a total that is no number, with
    features that cannot be parsed, or with a hypothesis that is not UTF-8 when no encoding was declared,
    are malformed. An empty hypothesis is not.

    Use it as a context manager, or call `close`; it iterates once.

    Args:
        path: the list, plain or gzipped.
        encoding: str. The file's encoding; bytes that it cannot decode are carried through as lone
            surrogates. Defaults to `None`: UTF-8, and other bytes are malformed.
        on_error: str. What a malformed line does: "stop" raises, "keep" gives a record that says so.
            Defaults to "stop".

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.

    Raises:
        InputError: when the file cannot be read or the encoding cannot be used; on a malformed line.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "nbest")
    ...     with open(path, "w") as file:
    ...         _ = file.write("0 ||| le chat  ||| LM0= -4.5 ||| -3.25\\n")
    ...     with NBestReader(path) as nbest:
    ...         for record in nbest:
    ...             print(record.id, record.hypothesis, record.features, record.total)
    0 le chat b'LM0= -4.5' -3.25
    """

    def __init__(self, path, encoding=None, on_error="stop"):
        if on_error not in ("stop", "keep"):
            raise ValueError(f'found on_error={on_error!r}, expected "stop" or "keep"')
        self._encoding, self._keep = FileEncoding(encoding), on_error == "keep"
        self.malformed = 0
        self.lines = InputLines(path)
        self._records = self._read()

    def __iter__(self):
        return self._records

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Closes the file."""
        self._records.close()
        self.lines.close()

    def _read(self):
        for raw in self.lines:
            try:
                parsed = parse_nbest_line(raw)
                hypothesis = self._encoding.decode(parsed.hypothesis)
                record = NBestRecord(raw, parsed.id, hypothesis, parsed.features, parsed.total, None)
            except (MalformedLine, UnicodeDecodeError) as error:
                record = self._malformed(raw, error)
            yield record

    def _malformed(self, raw, error):
        path, line = self.lines.path, self.lines.line_number
        remedy = "--on_error=keep to leave such lines unscored"
        if isinstance(error, UnicodeDecodeError):
            problem = undecodable(error, path, line, f", or give {remedy}")
        else:
            problem = InputError(
                error.found, error.expected, f"repair or remove the line, or give {remedy}", path=path, line=line
            )
        if not self._keep:
            raise problem from None
        self.malformed += 1
        return NBestRecord(raw, None, "", b"", None, str(problem))
