"""Base class of the formats of pairs."""

import abc
import dataclasses
import enum
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath
from keras_encdec.formats.record_reader import WITH_NEUTRAL_SCORE, RecordReader
from keras_encdec.runtime.files import STANDARD_STREAM
from keras_encdec.runtime.input_lines import InputLines

# Digits after the decimal point of a log-probability.
DECIMALS = 6

#: The source words and the target words of a pair.
WordPair = tuple[Sequence[str], Sequence[str]]


class ColumnKind(enum.Enum):
    """Kinds of values in a column of results."""

    LOG_PROB = "ln p of a target, in nats"
    COUNT = "a number of words"
    NUMBER = "any other number"
    TOKEN_LOG_PROBS = "ln p of each token of a target, in nats, the end of sequence last"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of results.

    Attributes:
        kind: ColumnKind.
        name: str. Name of the column, which only some formats write.
    """

    kind: ColumnKind
    name: str


@dataclasses.dataclass(frozen=True)
class ColumnText:
    """How a format writes the values of a column of some kind.

    Attributes:
        write: function that takes a value and returns str.
        neutral: str. The text for a malformed line that is kept. It leaves the score of a log-linear model unchanged.
    """

    write: Callable[[Any], str]
    neutral: str


def log_prob_text(log_prob: float) -> str:
    """Formats a log-probability, in nats.

    >>> log_prob_text(-1.23456789)
    '-1.234568'
    """
    return f"{log_prob:.{DECIMALS}f}"


def token_log_probs_text(log_probs: Iterable[float]) -> str:
    """Formats the log-probabilities of tokens, an array `(tokens,)`, separated by spaces."""
    return " ".join([f"{value:.{DECIMALS}f}" for value in log_probs])


#: How text formats write the columns of each line.
DECIMAL_COLUMNS: Mapping[ColumnKind, ColumnText] = {
    ColumnKind.LOG_PROB: ColumnText(log_prob_text, neutral="0"),
    ColumnKind.COUNT: ColumnText(str, neutral="0"),
    ColumnKind.NUMBER: ColumnText(log_prob_text, neutral="0"),
}


class Record(Protocol):
    """A line of a file, as the reader of every format yields it: a named tuple, which may have further fields."""

    @property
    def raw(self) -> bytes:
        """The line, without its line feed."""

    @property
    def source(self) -> str:
        """The source; empty when malformed."""

    @property
    def target(self) -> str:
        """The target; empty when malformed."""

    @property
    def problem(self) -> str | None:
        """A sentence about the error in a malformed line, otherwise `None`."""

    def _replace(self, *, problem: str | None) -> Self:
        """Returns a copy with a problem."""


# Number of lines that `check_beginning` reads, in about a hundredth of a second.
BEGINNING = 1000


class PairFormat(abc.ABC):
    """Base class of formats of files with a pair of source and target text on each line.

    A format is a subclass with a `name` and a `reader`. If scores can be added to its lines, it also has
    `column_texts` and `add_columns`. `register_format` makes a format available to training, scoring and the commands.

    Attributes:
        name: str. The name of the format in flags and arguments.
        description: str. A noun phrase for the help of flags.
        reader: class of RecordReader, whose arguments are those of `open_reader`; without a file of sources, `path`,
            `encoding` and `on_error`.
        has_source_file: bool. Whether the sources are in a second file.
        source_in_step: bool. Whether line n of the file of sources belongs to line n of this file.
        is_tokenized: bool. Whether the text is always tokenized, so that no tokenizer is applied to it. Otherwise, a
            tokenizer is applied if the model reads raw text.
        is_factored: bool. Whether a bar in a token separates factors, of which the model reads the first.
        in_moses_ini: bool. Whether a moses.ini contains the number of scores on each line. The reader then sets
            `num_scores`.
        has_links: bool. Whether lines contain a word alignment, which `links` returns.
        has_column_names: bool. Whether columns are written with their names.
        column_texts: dict from each kind of column that can be added to a line to its ColumnText; empty if no columns
            can be added.

    Example: lines `target <- source`, to which ln p is added at the beginning.

    >>> from keras_encdec.formats import ColumnKind, ColumnText, PairReader, PairRecord
    >>> class ArrowReader(PairReader):
    ...     def records(self):
    ...         for raw in self.lines:
    ...             target, source = self.decode(raw).split(" <- ")
    ...             yield PairRecord(raw, source, target, None)
    >>> class ArrowFormat(PairFormat):
    ...     name = "arrow"
    ...     reader = ArrowReader
    ...     column_texts = {ColumnKind.LOG_PROB: ColumnText("{:.2f}".format, neutral="0")}
    ...
    ...     def add_columns(self, record, columns, texts):
    ...         return " ".join([*texts, ""]).encode() + record.raw
    >>> record = PairRecord(b"the cat <- le chat", "le chat", "the cat", None)
    >>> ArrowFormat().with_columns([record], [Column(ColumnKind.LOG_PROB, "lnp")], [[-1.5]])
    [b'-1.50 the cat <- le chat']
    """

    name: ClassVar[str]
    description: ClassVar[str] = "a file of pairs"
    reader: ClassVar[Callable[..., RecordReader[Record]]]
    has_source_file: ClassVar[bool] = False
    source_in_step: ClassVar[bool] = False
    is_tokenized: ClassVar[bool] = False
    is_factored: ClassVar[bool] = False
    in_moses_ini: ClassVar[bool] = False
    has_links: ClassVar[bool] = False
    has_column_names: ClassVar[bool] = False
    column_texts: ClassVar[Mapping[ColumnKind, ColumnText]] = {}

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str | None = "stop",
    ) -> RecordReader[Record]:
        """Opens a file, and the file of its sources if the format has one.

        Args:
            path: the file, plain or gzipped.
            source_path: the file of sources. Optional.
            encoding: str. The encoding, see `FileEncoding`. Defaults to UTF-8, checked.
            on_error: str. What to do at a malformed line: "stop" raises an error, "keep" yields a record with a
                `problem`. Defaults to "stop".

        Returns:
            RecordReader, which yields exactly one `Record` for each line.

        Raises:
            ConfigurationError: a ValueError, if the format has a file of sources and `source_path` is `None`.
            InputError: if a file cannot be read or the encoding cannot be used.
        """
        sources = [self.required_source(source_path)] if self.has_source_file else []
        return type(self).reader(path, *sources, encoding, on_error)

    def check_beginning(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str | None = "stop",
        kept: str = WITH_NEUTRAL_SCORE,
        columns: Sequence[Column] = (),
    ) -> int:
        """Reads the first lines of a file, so that a command finds most errors before Keras is imported.

        A pipe, which can be read only once, and a remote file are not read. With `on_error="keep"`, only errors of the
        whole file are found, such as an empty file: the task itself counts the malformed lines.

        Args:
            path, source_path, encoding: see `open_reader`.
            on_error: str. See `open_reader`; `None` for a command that has no such option.
            kept: str. What the command does with malformed lines that it keeps, see `RecordReader`.
            columns: list of Column to add to each line. Defaults to none.

        Returns:
            int. The number of scores on each line; 0 if the format has none, or nothing was read.

        Raises:
            ConfigurationError, InputError: see `open_reader`; also for an error in the first lines.
        """
        paths = [each for each in (source_path, path) if each is not None]
        if STANDARD_STREAM in paths or not all(map(os.path.isfile, paths)):
            return 0
        if on_error == "keep":
            for each in paths:
                InputLines(each).close()
            return 0
        with self.open_reader(path, source_path, encoding, on_error) as reader:
            reader.kept = kept
            for _ in itertools.islice(self.check_columns(reader, columns), BEGINNING):
                pass
            return reader.num_scores

    def required_source(self, source_path: FilePath | None) -> FilePath:
        """Returns the file of sources of a format that has one.

        Raises:
            ConfigurationError: a ValueError, if it is `None`.
        """
        if source_path is None:
            raise ConfigurationError("found {format}=%s without {source}, expected the file of the sources", self.name)
        return source_path

    def group(self, raw: bytes) -> bytes | None:
        """Returns a key that neighbouring lines share if they must be scored together, such as the id of a sentence.

        Defaults to `None`: any lines may be scored together.
        """
        return None

    def links(self, record: Record) -> bytes | None:
        """Returns the word alignment in the line of a well-formed record, such as `0-0 1-2`; `None` without one."""
        return None

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        """Adds columns to the line of a record.

        Args:
            record: a well-formed record.
            columns: list of Column, of kinds in `column_texts`.
            texts: list of str, the text of each column.

        Returns:
            bytes. The new line without its line feed.
        """
        raise NotImplementedError(f"no columns can be added to lines of the format {self.name!r}")

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        """Adds neutral columns to the line of a malformed record, or returns it unchanged if it cannot hold them."""
        return self.add_columns(record, columns, [self.column_texts[column.kind].neutral for column in columns])

    def check_columns(self, reader: RecordReader[Record], columns: Sequence[Column]) -> Iterator[Record]:
        """Yields the records of a reader, and checks that columns can be added to each line.

        Raises:
            InputError: at a line to which they cannot be added.
        """
        return iter(reader)

    def with_columns(
        self, records: Sequence[Record], columns: Sequence[Column], values: Sequence[Iterable[object]]
    ) -> list[bytes]:
        """Adds columns of results to the lines of records. Malformed records get neutral values.

        Args:
            records: list of records from the reader of the format.
            columns: list of Column, of kinds in `column_texts`.
            values: list of the values of each column, one for each well-formed record.

        Returns:
            list of bytes. The new lines without line feeds.

        Raises:
            ValueError: for a new line with a line feed.
        """
        writers = [self.column_texts[column.kind].write for column in columns]
        added = zip(*[map(write, cells) for write, cells in zip(writers, values, strict=True)], strict=True)
        lines = [
            self.add_columns(record, columns, next(added))
            if record.problem is None
            else self.add_neutral_columns(record, columns)
            for record in records
        ]
        for line in lines:
            if b"\n" in line:
                raise ValueError(f"found {line!r} from add_columns of {type(self).__name__}, expected no line feed")
        return lines
