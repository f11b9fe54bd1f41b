"""Plain text: sentences, one per line, and pairs of text in tab-separated columns or in two files."""

import dataclasses
import itertools
from collections.abc import Callable, Generator, Sequence
from typing import ClassVar

from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.encodings import FileEncoding, without_mark
from keras_encdec.formats.pair_format import (
    DECIMAL_COLUMNS,
    Column,
    ColumnKind,
    ColumnText,
    PairFormat,
    Record,
    token_log_probs_text,
)
from keras_encdec.formats.record_reader import MalformedLine, PairReader, PairRecord
from keras_encdec.runtime.input_lines import InputLines, unequal_lines

# What the file should be, for the error about a first line without a tab.
_NO_TSV = "TSV; without a source, as for a language model, a tab begins each line"


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
                    raise MalformedLine("found no tab", "expected source and target separated by a tab", _NO_TSV)
                record = PairRecord(raw, self.decode(columns[0]), self.decode(columns[1], begins_line=False), None)
            except (MalformedLine, UnicodeDecodeError) as error:
                record = self.malformed_record(raw, error)
            yield record


class TsvFormat(PairFormat):
    """Tab-separated columns: source, target and any others. Results are added as new columns."""

    name = "tsv"
    description = "a TSV file"
    reader: ClassVar[Callable[..., PairReader]] = TsvReader
    column_texts = {**DECIMAL_COLUMNS, ColumnKind.TOKEN_LOG_PROBS: ColumnText(token_log_probs_text, neutral="")}

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        return append_columns(record.raw, texts)

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        # Without a tab, the first new column would be in the place of the target.
        return super().add_neutral_columns(record, columns) if b"\t" in record.raw else record.raw


def append_columns(raw: bytes, columns: Sequence[str]) -> bytes:
    r"""Adds columns to a line of tab-separated columns. No other byte changes.

    Args:
        raw: bytes. The line, without its line feed; a carriage return at its end stays there.
        columns: list of str.

    Example:

    >>> append_columns(b"le\tthe\r", ["-0.25", "0"])
    b'le\tthe\t-0.25\t0\r'
    """
    added = "".join(["\t" + column for column in columns]).encode("utf-8", "surrogateescape")
    return raw[:-1] + added + b"\r" if raw.endswith(b"\r") else raw + added


class ParallelReader(PairReader):
    """Reads pairs from two files: the n-th pair is the n-th line of both.

    An empty line is an empty text, and no line is left out, so that the lines stay aligned. Carriage returns, the
    byte-order mark and malformed lines are treated as by `TsvReader`.

    Args:
        source_path: the file of sources, plain or gzipped.
        target_path: the file of targets, plain or gzipped.
        encoding: str. The encoding of both files, see `PairReader`. Optional.
        on_error: str. What to do at a malformed line, see `PairReader`. Defaults to "stop".

    Attributes:
        lines: InputLines of the sources, for progress.
        malformed: int. Malformed pairs so far.

    Raises:
        InputError: for the reasons of `PairReader`, and at the end if one file has more lines than the other.
    """

    def __init__(
        self, source_path: FilePath, target_path: FilePath, encoding: str | None = None, on_error: str = "stop"
    ) -> None:
        super().__init__(source_path, encoding, on_error)
        try:
            self._target_lines = InputLines(target_path)
        except InputError:
            self.lines.close()
            raise

    def close(self) -> None:
        """Closes both files."""
        super().close()
        self._target_lines.close()

    def records(self) -> Generator[PairRecord]:
        for source, target in itertools.zip_longest(self.lines, self._target_lines):
            if source is None or target is None:
                raise unequal_lines(self.lines, self._target_lines)
            yield self._pair(source, target)

    def _pair(self, source: bytes, target: bytes) -> PairRecord:
        source = source.removesuffix(b"\r")
        texts: list[str] = []
        # The line is written as tab-separated columns, which a tab or a byte-order mark within a text would break.
        unmarked = without_mark(target, self.lines.line_number)
        raw = source.replace(b"\t", b" ") + b"\t" + unmarked.replace(b"\t", b" ")
        for data, lines in ((source, self.lines), (target.removesuffix(b"\r"), self._target_lines)):
            try:
                texts.append(self.decode(data))
            except UnicodeDecodeError as error:
                return self.malformed_record(raw, error, lines)
        return PairRecord(raw, texts[0], texts[1], None)


class ParallelFormat(TsvFormat):
    """A file of sources and a file of targets, line by line. The output is a single file, in `TsvFormat`."""

    name = "parallel"
    description = "parallel text (a file of targets and one of their sources)"
    reader = staticmethod(lambda path, source_path, *how: ParallelReader(source_path, path, *how))
    has_source_file = True
    source_in_step = True


class SentenceReader(PairReader):
    """Reads a file with one sentence per line. Each sentence is the target of a pair without a source.

    An empty line is an empty sentence. Carriage returns, the byte-order mark and malformed lines are treated as by
    `TsvReader`. Arguments, attributes and errors are those of `PairReader`.
    """

    def records(self) -> Generator[PairRecord]:
        for raw in self.lines:
            try:
                record = PairRecord(raw, "", self.decode(raw.removesuffix(b"\r")), None)
            except UnicodeDecodeError as error:
                record = self.malformed_record(raw, error)
            yield record


class SentenceFormat(PairFormat):
    """Targets without sources, one per line, for language models."""

    name = "sentences"
    description = "a text file with one sentence per line"
    reader = SentenceReader


@dataclasses.dataclass(frozen=True)
class Sentences:
    """The sentences of a file, passed in place of its path so that they are read only once.

    Attributes:
        path: str. The path of the file, as errors name it.
        texts: list of str, see `read_sentences`.
    """

    path: str
    texts: list[str]

    def __fspath__(self) -> str:
        return self.path


def read_sentences(path: FilePath, encoding: str | None = None) -> list[str]:
    """Reads a text file with one sentence per line, so that sentence n is on line n + 1.

    An empty line is an empty sentence. Carriage returns at the ends of lines and a byte-order mark are removed.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding of the file, see `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an
            error.

    Raises:
        InputError: if the file cannot be read or a line cannot be decoded.
    """
    with InputLines(path) as lines:
        return list(FileEncoding(encoding).texts(lines))
