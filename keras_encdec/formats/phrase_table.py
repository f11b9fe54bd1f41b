"""Moses phrase tables: lines in, fields out, and the same lines with more scores."""

import math
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.fields import AROUND, finite_number, split_tokens
from keras_encdec.formats.pair_format import Column, ColumnKind, ColumnText, PairFormat, Record
from keras_encdec.formats.record_reader import MalformedLine, RecordReader
from keras_encdec.runtime.files import InputLines
from keras_encdec.runtime.os_errors import FilePath

_UNDERSCORE = ord("_")


class PhraseTableLine:
    """One line of a phrase table, `source ||| target ||| scores [||| further fields]`.

    Made by `parse_line`.

    Attributes:
        raw: bytes. The line as it stands.
        source: bytes. The source phrase, without the spaces around it.
        target: bytes. The target phrase, without the spaces around it.
        scores: list of bytes, one a score.
    """

    __slots__ = ("raw", "source", "target", "scores", "_end_of_scores")

    def __init__(self, raw: bytes, source: bytes, target: bytes, scores: list[bytes], end_of_scores: int) -> None:
        self.raw, self.source, self.target, self.scores = raw, source, target, scores
        self._end_of_scores = end_of_scores

    def append_scores(self, extra: Sequence[bytes | str]) -> bytes:
        """Writes the line with more scores, which come after its own; no other byte changes.

        Args:
            extra: list of bytes or str.

        Returns:
            bytes. The line, without a line feed.
        """
        if not extra:
            return self.raw
        scores: Any = extra
        try:
            added = " ".join(scores).encode()  # six times as fast as one by one
        except TypeError:
            added = b" ".join(score.encode() if isinstance(score, str) else score for score in extra)
        line, end = self.raw, self._end_of_scores
        return b"%b %b%b" % (line[:end], added, line[end:])


def parse_line(line: bytes) -> PhraseTableLine:
    """Takes a line of a phrase table apart.

    Args:
        line: bytes, without its line feed; a carriage return may end it.

    Returns:
        PhraseTableLine.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, when there are fewer than three fields,
            no scores, or one is not a finite number.

    Example:

    >>> parse_line(b"le ||| the ||| 0.5 0.25 ||| 0-0").append_scores(["0.125"])
    b'le ||| the ||| 0.5 0.25 0.125 ||| 0-0'
    """
    fields = line.split(b"|||", 3)
    if len(fields) < 3:
        plural = "s" if len(fields) > 1 else ""
        found = f"found {len(fields)} field{plural}" if line.strip() else "found a blank line"
        raise MalformedLine(found, 'expected at least 3 fields separated by "|||"')
    field = fields[2]
    scores = field.split()
    try:
        total = sum(map(float, scores))
    except ValueError:
        total = math.nan
    # Whether each score is a `finite_number`, in a third of the time: the difference is not 0 when one is inf or nan,
    # and Python also reads 1_0 and splits at vertical tabs and form feeds.
    if total - total != 0 or not scores or _UNDERSCORE in field or b"\v" in field or b"\f" in field:
        _check_scores(split_tokens(field.strip(AROUND)))
    source, target = fields[0], fields[1]
    end = len(source) + len(target) + len(field.rstrip()) + 6
    return PhraseTableLine(line, source.strip(AROUND), target.strip(AROUND), scores, end)


def _check_scores(scores: Sequence[bytes]) -> None:
    if not scores:
        raise MalformedLine("found no scores", "expected at least one score in the third field")
    for score in scores:
        try:
            finite_number(score)
        except ValueError:
            raise MalformedLine(f"found the score {quoted(score)}", "expected a finite number") from None


# Moses takes the logarithm of what it reads and raises it to this.
LOWEST_LOG_PROBABILITY = -100.0
# e^88 is the last power of e that is finite in the single precision that Moses computes in.
_HIGHEST_COUNT = 88


def format_probability(log_probability: float) -> str:
    """Writes a log-probability as the probability that Moses's tables hold.

    Moses stores max(ln p, -100) in single precision, so that the smallest number written is
    e^-100, 3.72008e-44, and 0 is never written. Below 1.2e-38 (ln p under -87.3) single precision is
    denormal: every reader of Moses takes such numbers (it reads doubles and narrows them, or uses a
    C++ stream), at the cost of at most 0.02 in ln p; where denormals are off, ln 0 becomes Moses's -100.

    Args:
        log_probability: float. Natural logarithm; a positive one, from rounding, is written as 1.

    Returns:
        str, as C's `%.6g` writes it.

    Raises:
        ValueError: when it is not a number or is plus infinity.

    Example:

    >>> format_probability(-0.7), format_probability(-5000.0), format_probability(0.0)
    ('0.496585', '3.72008e-44', '1')
    """
    if not log_probability < math.inf:
        raise ValueError(f"found the log-probability {log_probability}, expected a number up to 0")
    return f"{math.exp(min(0.0, max(LOWEST_LOG_PROBABILITY, log_probability))):.6g}"


def format_exponential(count: int) -> str:
    """Writes a count n as e^n, whose logarithm Moses takes when it loads the table.

    Args:
        count: int. From 0; above 88, where e^n is infinite in single precision, 88 is written.

    Returns:
        str, as C's `%.6g` writes it.

    Raises:
        ValueError: when the count is negative.

    Example:

    >>> format_exponential(0), format_exponential(2)
    ('1', '7.38906')
    """
    if count < 0:
        raise ValueError(f"found the count {count}, expected 0 or more")
    return f"{math.exp(min(count, _HIGHEST_COUNT)):.6g}"


class PhraseTableRecord(NamedTuple):
    """One line of a phrase table file.

    Attributes:
        raw: bytes. The line as it stands, without its line feed.
        source: str. The source phrase, still escaped and factored; empty when malformed.
        target: str. The target phrase, still escaped and factored; empty when malformed.
        parsed: PhraseTableLine, or `None` when malformed.
        problem: `None`, or the sentence that says what is wrong with the line.
    """

    raw: bytes
    source: str
    target: str
    parsed: PhraseTableLine | None
    problem: str | None


class PhraseTableReader(RecordReader[PhraseTableRecord]):
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
        self.num_scores: int | None = None
        self._first: int | None = None
        self.lines = InputLines(path)
        self._records = self._read(limit)

    def _read(self, limit: int | None) -> Generator[PhraseTableRecord]:
        # Makes a named tuple in half the time of its own constructor, which counts the arguments.
        new_record: Callable[[type[PhraseTableRecord], tuple[object, ...]], PhraseTableRecord]
        new_record = cast(Any, tuple).__new__
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
            yield new_record(PhraseTableRecord, (raw, source, target, parsed, None))

    def _check_number(self, number: int) -> None:
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
        for record in reader:
            if record.parsed is not None:
                return len(record.parsed.scores)
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
    ) -> RecordReader[PhraseTableRecord]:
        return PhraseTableReader(path, encoding, on_error)

    def links(self, record: Record) -> bytes | None:
        fields = record.raw.split(b"|||", 4)
        return fields[3] if len(fields) > 3 else None

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        table_record: Any = record  # a PhraseTableRecord; a cast would take time on every line
        line: bytes = table_record.parsed.append_scores(texts)
        return line

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        try:
            return parse_line(record.raw).append_scores([self.column_texts[column.kind].neutral for column in columns])
        except MalformedLine:
            return record.raw  # it has no field of scores to add to
