"""Moses phrase tables: lines in, fields out, and the same lines with more scores."""

from collections import namedtuple
from collections.abc import Sequence
from itertools import islice

from keras_encdec.errors import InputError
from keras_encdec.formats.columns import Column, ColumnKind, ColumnText
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.files import InputLines
from keras_encdec.formats.malformed_line import MalformedLine
from keras_encdec.formats.pair_format import PairFormat, Record
from keras_encdec.formats.phrase_table_line import parse_line
from keras_encdec.formats.probabilities import format_exponential, format_probability
from keras_encdec.formats.record_reader import RecordReader

PhraseTableRecord = namedtuple("PhraseTableRecord", "raw source target parsed problem")
PhraseTableRecord.__doc__ = """One line of a phrase table file.

    Attributes:
        raw: bytes. The line as it stands, without its line feed.
        source: str. The source phrase, still escaped and factored; empty when malformed.
        target: str. The target phrase, still escaped and factored; empty when malformed.
        parsed: PhraseTableLine, or `None` when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """
# Makes a named tuple in half the time of its own constructor, which counts the arguments.
_new_tuple = tuple.__new__


class PhraseTableReader(RecordReader):
    """Reads a phrase table: every line of the file gives exactly one record, in order.

    Lines with fewer than three fields or without scores, with a score that is not a number, with another
    number of scores than the first well-formed line, or with bytes that are not UTF-8 when no encoding
    was declared, are malformed. Lines with an empty phrase and with fields beyond Moses's seven are not.
    A byte-order mark is kept in `raw` and left out of `source`.

    Use it as a context manager, or call `close`; it iterates once.

    Args:
        path: the table, plain or gzipped.
        encoding: str. The file's encoding; bytes that it cannot decode are carried through as lone
            surrogates. Defaults to `None`: UTF-8, and other bytes are malformed.
        on_error: str. What a malformed line does: "stop" raises, "keep" gives a record that says so.
            Defaults to `None`: it raises, and the error does not name the flag `--on_error`.
        limit: int. How many lines to read at most. Optional.

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.
        num_scores: int. Scores on each line; `None` before the first well-formed one.

    Raises:
        InputError: when the file cannot be read or the encoding cannot be used; on a malformed line.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table")
    ...     with open(path, "w") as file:
    ...         _ = file.write("le ||| the ||| 0.5 0.25 ||| 0-0\\n")
    ...     with PhraseTableReader(path) as table:
    ...         for record in table:
    ...             print(record.source, record.target, record.parsed.append_scores(["0.125"]))
    le the b'le ||| the ||| 0.5 0.25 0.125 ||| 0-0'
    """

    def __init__(
        self, path: FilePath, encoding: str | None = None, on_error: str | None = None, limit: int | None = None
    ) -> None:
        super().__init__(encoding, on_error)
        self.num_scores, self._first = None, None
        self.lines = InputLines(path)
        self._records = self._read(limit)

    def _read(self, limit):
        codec, errors = self._encoding.codec, self._encoding.errors
        mark = BYTE_ORDER_MARK if self._encoding.is_utf8 else None
        for raw in islice(self.lines, limit):
            try:
                parsed = parse_line(raw)
                if len(parsed.scores) != self.num_scores:
                    self._check_number(len(parsed.scores))
                source = parsed.source.decode(codec, errors)
                target = parsed.target.decode(codec, errors)
            except (MalformedLine, UnicodeDecodeError) as error:
                yield PhraseTableRecord(raw, "", "", None, self._problem(error))
                continue
            if mark:
                source, mark = source.removeprefix(mark).strip(" \t"), None
            yield _new_tuple(PhraseTableRecord, (raw, source, target, parsed, None))

    def _check_number(self, number):
        if self.num_scores is not None:
            expected = f"expected {self.num_scores} as on line {self._first}"
            raise MalformedLine(f"found {number} score{'s' * (number > 1)}", expected)
        self.num_scores, self._first = number, self.lines.line_number


def number_of_scores(path: FilePath) -> int:
    """Number of scores on each line of a phrase table.

    Args:
        path: the table, plain or gzipped.

    Raises:
        InputError: when it cannot be read, its first line is malformed, or it is empty.
    """
    with PhraseTableReader(path, encoding="latin-1", limit=1) as reader:
        for _ in reader:
            return reader.num_scores
    raise InputError("found an empty file", "expected a phrase table", path=path)


class PhraseTableFormat(PairFormat):
    """A Moses phrase table; ln p as a probability, a count as e to its power, among the line's scores."""

    name = "phrase_table"
    description = "a Moses phrase table"
    is_tokenized = True
    is_factored = True
    in_moses_ini = True
    has_links = True
    column_texts = {
        ColumnKind.LOG_PROB: ColumnText(format_probability, neutral="1"),
        ColumnKind.COUNT: ColumnText(format_exponential, neutral="1"),
    }

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader:
        return PhraseTableReader(path, encoding, on_error)

    def links(self, record: Record) -> bytes | None:
        fields = record.raw.split(b"|||", 4)
        return fields[3] if len(fields) > 3 else None

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        return record.parsed.append_scores(texts)

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        try:
            return parse_line(record.raw).append_scores([self.column_texts[column.kind].neutral for column in columns])
        except MalformedLine:
            return record.raw  # it has no field of scores to add to
