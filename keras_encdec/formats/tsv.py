"""Pairs of text in tab-separated columns."""

from collections.abc import Generator, Sequence

from keras_encdec.errors import FilePath
from keras_encdec.formats.pair_format import (
    Column,
    ColumnKind,
    ColumnText,
    PairFormat,
    Record,
    log_prob_text,
    token_log_probs_text,
)
from keras_encdec.formats.record_reader import MalformedLine, PairReader, PairRecord, RecordReader


class TsvReader(PairReader):
    r"""Reads pairs from a file of tab-separated columns: source, target and any others.

    Every line gives exactly one record, in order. A line is malformed if it has only one column, or if it is not UTF-8
    and no encoding was declared. The source and the target may be empty. Carriage returns at the ends of lines and a
    byte-order mark are kept in `raw` and removed from the text.

    Use it as a context manager, or call `close`; it iterates once. Arguments, attributes and errors are those of
    `PairReader`.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pairs.tsv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("the house\tla maison\t12\n")
    ...     with TsvReader(path) as reader:
    ...         print([(record.source, record.target) for record in reader])
    [('the house', 'la maison')]
    """

    def records(self) -> Generator[PairRecord]:
        for raw in self.lines:
            columns = raw.removesuffix(b"\r").split(b"\t", 2)
            try:
                if len(columns) < 2:
                    raise MalformedLine("found no tab", "expected source and target separated by a tab")
                record = PairRecord(raw, self.decode(columns[0]), self.decode(columns[1], begins_line=False), None)
            except (MalformedLine, UnicodeDecodeError) as error:
                record = self.malformed_record(raw, error)
            yield record


class TsvFormat(PairFormat):
    """Tab-separated columns: source, target and any others. Results are added as new columns."""

    name = "tsv"
    description = "a TSV file"
    column_texts = {
        ColumnKind.LOG_PROB: ColumnText(log_prob_text, neutral="0"),
        ColumnKind.COUNT: ColumnText(str, neutral="0"),
        ColumnKind.TOKEN_LOG_PROBS: ColumnText(token_log_probs_text, neutral=""),
    }

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader[PairRecord]:
        return TsvReader(path, encoding, on_error)

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        return append_columns(record.raw, texts)


def append_columns(raw: bytes, columns: Sequence[str]) -> bytes:
    r"""Adds columns to a line of tab-separated columns. No other byte changes.

    Args:
        raw: bytes. The line, without its line feed; a carriage return at its end stays there.
        columns: list of str.

    Returns:
        bytes.

    Example:

    >>> append_columns(b"le\tthe\r", ["-0.25", "0"])
    b'le\tthe\t-0.25\t0\r'
    """
    added = "".join(["\t" + column for column in columns]).encode("utf-8", "surrogateescape")
    return raw[:-1] + added + b"\r" if raw.endswith(b"\r") else raw + added
