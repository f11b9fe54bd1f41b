"""Moses n-best lists: lines in, hypotheses and their features out, and the same lines with more features."""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from keras_encdec.errors import InputError
from keras_encdec.formats.nbest_line import append_features, check_new_features, features_of, parse_nbest_line
from keras_encdec.formats.pair_format import Column, ColumnKind, ColumnText, PairFormat, Record, log_prob_text
from keras_encdec.formats.record_reader import LineRecord, MalformedLine, RecordReader
from keras_encdec.formats.sentences import read_sentences
from keras_encdec.runtime.files import InputLines
from keras_encdec.runtime.os_errors import FilePath


class NBestRecord(NamedTuple):
    """One line of an n-best list.

    Attributes:
        raw: bytes. The line as it stands, without its line feed.
        id: int. Number of the source sentence, from 0; `None` when malformed.
        hypothesis: str. The translation, still escaped and factored; empty when malformed.
        features: bytes. The third field without the spaces around it; empty when malformed.
        total: float. The hypothesis's total as it stands there; `None` when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """

    raw: bytes
    id: int | None
    hypothesis: str
    features: bytes
    total: float | None
    problem: str | None


class NBestPairRecord(NamedTuple):
    """One line of an n-best list with its source sentence.

    Attributes:
        raw: bytes. The line as it stands, without its line feed.
        source: str. The source sentence, still escaped and factored; empty when malformed.
        target: str. The hypothesis, still escaped and factored; empty when malformed.
        features: bytes. The third field without the spaces around it; empty when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """

    raw: bytes
    source: str
    target: str
    features: bytes
    problem: str | None


class _HypothesisReader(RecordReader[LineRecord]):
    """Base of readers of n-best lists: a subclass makes its `_records` of `_hypotheses`."""

    def __init__(self, path: FilePath, encoding: str | None, on_error: str | None) -> None:
        super().__init__(encoding, on_error)
        self.lines = InputLines(path)

    def _hypotheses(self) -> Generator[NBestRecord]:
        for raw in self.lines:
            try:
                parsed = parse_nbest_line(raw)
                hypothesis = self._encoding.decode(parsed.hypothesis)
                record = NBestRecord(raw, parsed.id, hypothesis, parsed.features, parsed.total, None)
            except (MalformedLine, UnicodeDecodeError) as error:
                record = NBestRecord(raw, None, "", b"", None, self._problem(error))
            yield record


class NBestReader(_HypothesisReader[NBestRecord]):
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

    def __init__(self, path: FilePath, encoding: str | None = None, on_error: str = "stop") -> None:
        super().__init__(path, encoding, on_error)
        self._records = self._hypotheses()


class NBestPairReader(_HypothesisReader[NBestPairRecord]):
    """Reads an n-best list as pairs of source sentence and hypothesis. Otherwise as `NBestReader`.

    Args:
        path: the list, plain or gzipped.
        source_path: the sentences that were translated, plain or gzipped; id 0 is the first line.
        encoding: str. The encoding of both files, as for `NBestReader`. Optional.
        on_error: str. What a malformed line of the list does, as for `NBestReader`. Defaults to "stop".

    Attributes:
        sentences: list of str. The sentences that were translated.

    Raises:
        InputError: as for `NBestReader`, and at an id that has no source sentence.
    """

    def __init__(
        self, path: FilePath, source_path: FilePath, encoding: str | None = None, on_error: str = "stop"
    ) -> None:
        super().__init__(path, encoding, on_error)
        self._records = self._pairs(source_path)
        try:
            self.sentences = read_sentences(source_path, encoding)
        except InputError:
            self.close()
            raise

    def _pairs(self, source_path: FilePath) -> Generator[NBestPairRecord]:
        sentences = self.sentences
        for record in self._hypotheses():
            if record.id is None:
                yield NBestPairRecord(record.raw, "", record.hypothesis, record.features, record.problem)
                continue
            if record.id >= len(sentences):
                raise InputError(
                    f"found the id {record.id}",
                    f"expected one up to {len(sentences) - 1}, as {source_path} has {len(sentences):,} lines",
                    "give as --source the sentences that were translated",
                    self.lines.path,
                    self.lines.line_number,
                )
            source = sentences[record.id]
            yield NBestPairRecord(record.raw, source, record.hypothesis, record.features, record.problem)


class NBestFormat(PairFormat):
    """A Moses n-best list and the sentences that were translated; ln p and counts as named features."""

    name = "nbest"
    description = "a Moses n-best list (and a file of the sentences that were translated)"
    has_source_file = True
    is_factored = True
    has_column_names = True
    column_texts = {
        ColumnKind.LOG_PROB: ColumnText(log_prob_text, neutral="0"),
        ColumnKind.COUNT: ColumnText(str, neutral="0"),
    }

    def open_reader(
        self,
        path: FilePath,
        source_path: FilePath | None = None,
        encoding: str | None = None,
        on_error: str = "stop",
    ) -> RecordReader[NBestPairRecord]:
        return NBestPairReader(path, self.required_source(source_path), encoding, on_error)

    def check_columns(self, reader: RecordReader[Record], columns: Sequence[Column]) -> Iterator[Record]:
        names = [column.name for column in columns]
        for record in reader:
            # A malformed line may have features, and get neutral values, too.
            known = features_of(record.raw) or ()
            check_new_features(known, names, reader.lines.path, reader.lines.line_number)
            yield record

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        names = [column.name for column in columns]
        return append_features(record.raw, list(zip(names, texts, strict=True)))

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        if features_of(record.raw) is None:
            return record.raw
        return super().add_neutral_columns(record, columns)
