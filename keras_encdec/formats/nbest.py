"""Readers of Moses n-best lists, and the format that adds features to their lines."""

import dataclasses
import os
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.encodings import FileEncoding, model_words, without_mark
from keras_encdec.formats.feature_weights import WORD_PENALTY
from keras_encdec.formats.fields import split_tokens
from keras_encdec.formats.nbest_line import (
    NBestLine,
    append_features,
    check_new_features,
    feature_names,
    parse_features,
    parse_nbest_line,
)
from keras_encdec.formats.pair_format import DECIMAL_COLUMNS, Column, ColumnKind, PairFormat, Record
from keras_encdec.formats.plain_text import Sentences, read_sentences
from keras_encdec.formats.record_reader import LineRecord, MalformedLine, RecordReader
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.progress import counted


class NBestRecord(NamedTuple):
    """One line of an n-best list.

    Attributes:
        raw: bytes. The line, without its line feed.
        id: int. Number of the source sentence, from 0; `None` when malformed.
        hypothesis: str. The translation, still escaped and factored; empty when malformed.
        features: bytes. The third field without the spaces around it; empty when malformed.
        total: float. The total score of the hypothesis; `None` when malformed.
        problem: `None`, or a sentence about the error in a malformed line.
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
        raw: bytes. The line, without its line feed.
        id: int. Number of the source sentence, from 0; `None` when malformed.
        source: str. The source sentence, still escaped and factored; empty when malformed.
        target: str. The hypothesis, still escaped and factored; empty when malformed.
        features: bytes. The third field without the spaces around it; empty when malformed.
        problem: `None`, or a sentence about the error in a malformed line.
    """

    raw: bytes
    id: int | None
    source: str
    target: str
    features: bytes
    problem: str | None


class _HypothesisReader(RecordReader[LineRecord]):
    """Base class of readers of n-best lists. A subclass makes its `_records` from `_hypotheses`."""

    def __init__(self, path: FilePath, encoding: str | None, on_error: str | None) -> None:
        super().__init__(encoding, on_error)
        self.lines = InputLines(path)

    def _hypotheses(self) -> Generator[NBestRecord]:
        for raw in self.lines:
            try:
                parsed = parse_nbest_line(without_mark(raw, self.lines.line_number))
                hypothesis = self._encoding.decode(parsed.hypothesis)
                record = NBestRecord(raw, parsed.id, hypothesis, parsed.features, parsed.total, None)
            except (MalformedLine, UnicodeDecodeError) as error:
                record = NBestRecord(raw, None, "", b"", None, self._problem(error))
            yield record


class NBestReader(_HypothesisReader[NBestRecord]):
    r"""Reads an n-best list. Every line gives exactly one record, in order.

    A line is `id ||| hypothesis ||| Name= v [v ...] ... ||| total [||| segmentation] [||| alignment]`. A line is
    malformed if it is blank or has a different number of fields, if the id or the total is not a number, if the
    features cannot be parsed, or if the hypothesis is not UTF-8 and no encoding was declared. The hypothesis may be
    empty. A byte-order mark at the beginning of the list is kept in `raw`.

    Use it as a context manager, or call `close`; it iterates once.

    Args:
        path: the list, plain or gzipped.
        encoding: str. The encoding of the file, see `FileEncoding`. Defaults to `None`: UTF-8, and lines with other
            bytes are malformed.
        on_error: str. What to do at a malformed line: "stop" raises an error, "keep" yields a record with a `problem`.
            Defaults to "stop".

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.

    Raises:
        InputError: if the file cannot be read or the encoding cannot be used, and at a malformed line.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "nbest")
    ...     with open(path, "w") as file:
    ...         _ = file.write("0 ||| le chat  ||| LM0= -4.5 ||| -3.25\n")
    ...     with NBestReader(path) as nbest:
    ...         for record in nbest:
    ...             print(record.id, record.hypothesis, record.features, record.total)
    0 le chat b'LM0= -4.5' -3.25
    """

    def __init__(self, path: FilePath, encoding: str | None = None, on_error: str = "stop") -> None:
        super().__init__(path, encoding, on_error)
        self._records = self._hypotheses()


class NBestPairReader(_HypothesisReader[NBestPairRecord]):
    """Reads an n-best list as pairs of source sentence and hypothesis, and otherwise like `NBestReader`.

    Args:
        path: the list, plain or gzipped.
        source_path: the source sentences, plain or gzipped, or Sentences; id 0 is the first line.
        encoding: str. The encoding of both files, see `NBestReader`. Optional.
        on_error: str. What to do at a malformed line of the list, see `NBestReader`. Defaults to "stop".

    Attributes:
        sentences: list of str. The source sentences.

    Raises:
        InputError: see `NBestReader`; also if an id has no source sentence.
    """

    def __init__(
        self, path: FilePath, source_path: FilePath, encoding: str | None = None, on_error: str = "stop"
    ) -> None:
        super().__init__(path, encoding, on_error)
        self._records = self._pairs(source_path)
        try:
            if isinstance(source_path, Sentences):
                self.sentences = source_path.texts
            else:
                self.sentences = read_sentences(source_path, encoding)
        except InputError:
            self.close()
            raise

    def _pairs(self, source_path: FilePath) -> Generator[NBestPairRecord]:
        sentences = self.sentences
        for record in self._hypotheses():
            if record.id is not None and record.id >= len(sentences):
                lines = counted(len(sentences), "lines")
                raise self.lines.error(
                    f"found the id {record.id}",
                    f"expected at most {len(sentences) - 1}, as {os.fspath(source_path)} has {lines}",
                    "give the sentences that were translated as --source",
                )
            source = "" if record.id is None else sentences[record.id]
            yield NBestPairRecord(record.raw, record.id, source, record.hypothesis, record.features, record.problem)


class NBestFormat(PairFormat):
    """A Moses n-best list and its source sentences. Log-probabilities and counts are added as named features."""

    name = "nbest"
    description = "a Moses n-best list (and a file of the sentences that were translated)"
    reader = NBestPairReader
    has_source_file = True
    is_factored = True
    has_column_names = True
    column_texts = DECIMAL_COLUMNS

    def group(self, raw: bytes) -> bytes | None:
        return raw.partition(b"|||")[0].strip()

    def check_columns(self, reader: RecordReader[Record], columns: Sequence[Column]) -> Iterator[Record]:
        named = [column.name for column in columns if column.kind is ColumnKind.LOG_PROB]  # by --feature_name
        others = [column.name for column in columns if column.name not in named]
        for record in reader:
            # A malformed line may also have features, and gets neutral values.
            known, place = feature_names(record.raw), (reader.lines.path, reader.lines.line_number)
            check_new_features(known, named, *place)
            check_new_features(known, others, *place, "leave out the flag that adds it")
            yield record

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        names = [column.name for column in columns]
        return append_features(record.raw, list(zip(names, texts, strict=True)))

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        if not feature_names(record.raw):
            return record.raw
        return super().add_neutral_columns(record, columns)


@dataclasses.dataclass(frozen=True)
class NBestHypothesis:
    """A line of an n-best list.

    Attributes:
        line_number: int, from 1.
        raw: bytes. The unchanged line, without its line feed, and without the file's byte-order mark.
        parsed: NBestLine.
    """

    line_number: int
    raw: bytes
    parsed: NBestLine

    def words(self, encoding: FileEncoding, path: FilePath) -> list[str]:
        """Returns the words of the hypothesis, without factors and Moses's escapes; errors name the path of the list.

        Raises:
            InputError: if its bytes are invalid in the encoding.
        """
        return model_words(encoding.decode_line(self.parsed.hypothesis, path, self.line_number))


@dataclasses.dataclass(frozen=True)
class SentenceHypotheses:
    """The hypotheses of one sentence.

    Attributes:
        hypotheses: list of NBestHypothesis, in the order of the list, at least one.
        previous_id: int. Id of the preceding sentence in the list; -1 before the first sentence.
        mark: bytes. The byte-order mark of the list, if this is its first sentence; else empty.
    """

    hypotheses: list[NBestHypothesis]
    previous_id: int
    mark: bytes = b""

    @property
    def id(self) -> int:
        """The number of the source sentence."""
        return self.hypotheses[0].parsed.id

    @property
    def missing(self) -> int:
        """The number of ids without hypotheses between the preceding sentence and this one."""
        return self.id - self.previous_id - 1


def hypotheses_by_sentence(lines: InputLines) -> Iterator[SentenceHypotheses]:
    """Yields the sentences of an n-best list, one at a time.

    Raises:
        InputError: for a malformed line, and for ids that do not ascend.
    """
    hypotheses: list[NBestHypothesis] = []
    previous, mark = -1, b""
    for line in lines:
        number = lines.line_number
        raw = without_mark(line, number)  # the line may be written elsewhere in a file
        mark = mark or line[: len(line) - len(raw)]
        try:
            parsed = parse_nbest_line(raw)
        except MalformedLine as error:
            raise lines.error(error.found, error.expected, error.remedy(number)) from None
        last = hypotheses[-1].parsed.id if hypotheses else parsed.id
        if parsed.id < last:
            expected = "expected the hypotheses of each sentence together, and ids in ascending order"
            raise lines.error(f"found the id {parsed.id} after {last}", expected, "sort the list by id (sort -s -n)")
        if parsed.id > last:
            yield SentenceHypotheses(hypotheses, previous, mark if previous < 0 else b"")
            hypotheses, previous = [], last
        hypotheses.append(NBestHypothesis(number, raw, parsed))
    yield SentenceHypotheses(hypotheses, previous, mark if previous < 0 else b"")


def with_word_penalty(hypothesis: NBestHypothesis, path: FilePath | None = None) -> NBestHypothesis:
    """Returns a hypothesis with the feature `WordPenalty0`, minus the number of words, added to its line.

    Raises:
        InputError: if the hypothesis has the feature already.
    """
    parsed, remedy = hypothesis.parsed, "leave out --word_penalty"
    check_new_features(parse_features(parsed.features), [WORD_PENALTY], path, hypothesis.line_number, remedy)
    raw = append_features(hypothesis.raw, [(WORD_PENALTY, f"{0.0 - len(split_tokens(parsed.hypothesis)):g}")])
    return dataclasses.replace(hypothesis, raw=raw, parsed=parse_nbest_line(raw))
