"""Moses n-best lists: lines in, hypotheses and their features out."""

from collections import namedtuple

from keras_encdec.formats.files import InputLines
from keras_encdec.formats.malformed_line import MalformedLine
from keras_encdec.formats.nbest_line import parse_nbest_line
from keras_encdec.formats.record_reader import RecordReader

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


class NBestReader(RecordReader):
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
        super().__init__(encoding, on_error, "leave such lines unscored")
        self.lines = InputLines(path)
        self._records = self._read()

    def _read(self):
        for raw in self.lines:
            try:
                parsed = parse_nbest_line(raw)
                hypothesis = self._encoding.decode(parsed.hypothesis)
                record = NBestRecord(raw, parsed.id, hypothesis, parsed.features, parsed.total, None)
            except (MalformedLine, UnicodeDecodeError) as error:
                record = NBestRecord(raw, None, "", b"", None, self._problem(error))
            yield record
