"""What every format of pairs says of itself."""

import abc
import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.runtime.os_errors import FilePath

# Of a log-probability that is written as such.
DECIMALS = 6


class ColumnKind(enum.Enum):
    """What the values of a column are."""

    LOG_PROB = "ln p of a target, in nats"
    COUNT = "a number of words"
    TOKEN_LOG_PROBS = "ln p of each token of a target, in nats, the end of sequence last"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of results.

    Attributes:
        kind: ColumnKind.
        name: str. Written by formats that name their columns.
    """

    kind: ColumnKind
    name: str


@dataclasses.dataclass(frozen=True)
class ColumnText:
    """How a format writes the values of a kind of column.

    Attributes:
        write: callable from a value to str.
        neutral: str. Written on a malformed line that is kept: it adds nothing to a log-linear model.
    """

    write: Callable[[Any], str]
    neutral: str


def log_prob_text(log_prob: float) -> str:
    """A log-probability as such, in nats.

    >>> log_prob_text(-1.23456789)
    '-1.234568'
    """
    return f"{log_prob:.{DECIMALS}f}"


def token_log_probs_text(log_probs: Any) -> str:
    """The log-probabilities of tokens, separated by spaces: array `(tokens,)` to str."""
    return " ".join([f"{value:.{DECIMALS}f}" for value in log_probs])


class Record(Protocol):
    """A line of a file, as every format's reader gives it. It is a named tuple, which may have further fields."""

    @property
    def raw(self) -> bytes:
        """The line as it stands, without its line feed."""
        ...

    @property
    def source(self) -> str:
        """The source; empty when malformed."""
        ...

    @property
    def target(self) -> str:
        """The target; empty when malformed."""
        ...

    @property
    def problem(self) -> str | None:
        """The sentence that says what is wrong with a malformed line, otherwise `None`."""
        ...


class PairFormat(abc.ABC):
    """A format of files that hold pairs of source and target text, a pair a line.

    A format is a subclass with a `name` and an `open_reader`. One whose lines can be written again with
    scores also has `column_texts` and `add_columns`. `register_format` makes it known to everything that
    reads pairs: training data, scoring, and the commands.

    Attributes:
        name: str. What flags and functions call it.
        description: str. A noun phrase for the flags' help.
        has_source_file: bool. Whether a second file holds the sources, the n-th line that of sentence n.
        is_tokenized: bool. Whether the text consists of tokens in any case, so that no tokenizer is to
            touch it; otherwise it is tokenized where the model reads raw text.
        is_factored: bool. Whether a bar in a token separates factors, of which the model reads the first.
        in_moses_ini: bool. Whether a moses.ini says how many scores its lines have; its reader then has
            `num_scores`.
        has_links: bool. Whether lines hold the links between the words of the pair, which `links` gives.
        has_column_names: bool. Whether columns are written with their names.
        column_texts: how the kinds of columns that a line can hold are written; empty where lines cannot
            be written again.

    Example: lines `target <- source`, with ln p before them.

    >>> from keras_encdec.formats import ColumnKind, ColumnText, PairReader, PairRecord
    >>> class ArrowReader(PairReader):
    ...     def records(self):
    ...         for raw in self.lines:
    ...             target, source = self.decode(raw).split(" <- ")
    ...             yield PairRecord(raw, source, target, None)
    >>> class ArrowFormat(PairFormat):
    ...     name = "arrow"
    ...     column_texts = {ColumnKind.LOG_PROB: ColumnText("{:.2f}".format, neutral="0")}
    ...
    ...     def open_reader(self, path, source_path=None, encoding=None, on_error="stop"):
    ...         return ArrowReader(path, encoding, on_error)
    ...
    ...     def add_columns(self, record, columns, texts):
    ...         return " ".join([*texts, ""]).encode() + record.raw
    >>> record = PairRecord(b"the cat <- le chat", "le chat", "the cat", None)
    >>> ArrowFormat().with_columns([record], [Column(ColumnKind.LOG_PROB, "lnp")], [[-1.5]])
    [b'-1.50 the cat <- le chat']
    """

    name: ClassVar[str]
    description: ClassVar[str] = "a file of pairs"
    has_source_file: ClassVar[bool] = False
    is_tokenized: ClassVar[bool] = False
    is_factored: ClassVar[bool] = False
    in_moses_ini: ClassVar[bool] = False
    has_links: ClassVar[bool] = False
    has_column_names: ClassVar[bool] = False
    column_texts: ClassVar[Mapping[ColumnKind, ColumnText]] = {}

    @abc.abstractmethod
    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader[Record]:
        """Opens a file, or two.

        Args:
            path: the file, plain or gzipped.
            source_path: the file of sources, where the format has one.
            encoding: str. See `FileEncoding`. Defaults to UTF-8, checked.
            on_error: str. What a malformed line does: "stop" raises, "keep" gives a record that says so.

        Returns:
            RecordReader of `Record`s, exactly one for each line.

        Raises:
            InputError: when a file cannot be read or the encoding cannot be used.
        """

    def required_source(self, source_path: FilePath | None) -> FilePath:
        """The file of sources, for an `open_reader` that cannot do without.

        Raises:
            ConfigurationError: a ValueError, if it is `None`.
        """
        if source_path is None:
            raise ConfigurationError("found {format}=%s without {source}, expected the file of the sources", self.name)
        return source_path

    def links(self, record: Record) -> bytes | None:
        """The word alignment in a record's line, as Moses writes links, `0-0 1-2`.

        Args:
            record: well-formed.

        Returns:
            bytes; `None` where the line has none.
        """
        return None

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        """The record's line with more columns.

        Args:
            record: well-formed.
            columns: of kinds that are in `column_texts`.
            texts: their values for this line.

        Returns:
            bytes, the line without line feed.
        """
        raise NotImplementedError(f"{self.name} lines cannot be written again")

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        """The line of a malformed record with neutral values, or as it is where they have no place.

        Args:
            record: malformed.
            columns: of kinds that are in `column_texts`.

        Returns:
            bytes, the line without line feed.
        """
        return self.add_columns(record, columns, [self.column_texts[column.kind].neutral for column in columns])

    def check_columns(self, reader: RecordReader[Record], columns: Sequence[Column]) -> Iterator[Record]:
        """The records of a reader, as long as their lines can take the columns.

        Raises:
            InputError: at a line that cannot.
        """
        return iter(reader)

    def with_columns(
        self, records: Sequence[Record], columns: Sequence[Column], values: Sequence[Sequence[Any]]
    ) -> list[bytes]:
        """The lines of records with columns of results; malformed ones get neutral values.

        Args:
            records: of the format's reader.
            columns: of kinds that are in `column_texts`.
            values: those of each column, one for each well-formed record.

        Returns:
            list of bytes, lines without line feed.
        """
        writers = [self.column_texts[column.kind].write for column in columns]
        added = zip(*[map(write, cells) for write, cells in zip(writers, values, strict=True)], strict=True)
        return [
            self.add_columns(record, columns, next(added))
            if record.problem is None
            else self.add_neutral_columns(record, columns)
            for record in records
        ]
