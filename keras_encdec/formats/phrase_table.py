"""Moses phrase tables: reads them, and adds scores to their lines."""

import math
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, cast

from keras_encdec.errors import FilePath, quoted
from keras_encdec.formats.encodings import BYTE_ORDER_MARK
from keras_encdec.formats.fields import FIELD_SPACE, finite_number, split_tokens
from keras_encdec.formats.pair_format import Column, ColumnKind, ColumnText, PairFormat, Record
from keras_encdec.formats.record_reader import MalformedLine, RecordReader, wrong_number_of_fields
from keras_encdec.runtime.input_lines import InputLines

_UNDERSCORE = ord("_")


class PhraseTableLine:
    """A line of a phrase table, `source ||| target ||| scores [||| further fields]`. `parse_line` creates it.

    Attributes:
        raw: bytes. The line, unchanged.
        source: bytes. The source phrase, without the spaces around it.
        target: bytes. The target phrase, without the spaces around it.
        scores: list of bytes. The text of each score.
    """

    __slots__ = ("raw", "source", "target", "scores", "_end_of_scores")

    def __init__(self, raw: bytes, source: bytes, target: bytes, scores: list[bytes], end_of_scores: int) -> None:
        self.raw, self.source, self.target, self.scores = raw, source, target, scores
        self._end_of_scores = end_of_scores

    def append_scores(self, extra: Sequence[str]) -> bytes:
        """Returns the line, without a line feed, with more scores after its own. No other byte changes."""
        if not extra:
            return self.raw
        added = " ".join(extra).encode()  # six times as fast as encoding each score
        line, end = self.raw, self._end_of_scores
        return b"%b %b%b" % (line[:end], added, line[end:])


def parse_line(line: bytes) -> PhraseTableLine:
    """Parses a line of a phrase table, without its line feed; a carriage return may end it.

    Raises:
        MalformedLine: a ValueError with `found` and `expected`, if there are fewer than three fields or no scores, or a
            score is not a finite number.

    Example:

    >>> parse_line(b"le ||| the ||| 0.5 0.25 ||| 0-0").append_scores(["0.125"])
    b'le ||| the ||| 0.5 0.25 0.125 ||| 0-0'
    """
    fields = line.split(b"|||", 3)
    if len(fields) < 3:
        expected = 'expected at least 3 fields separated by "|||"'
        raise wrong_number_of_fields(len(fields), expected, "a phrase table", is_blank=not line.strip())
    field = fields[2]
    scores = field.split()
    try:
        total = sum(map(float, scores))
    except ValueError:
        total = math.nan
    # Checks whether each score is a `finite_number`, in a third of the time. The difference is not 0 if a score is inf
    # or nan. Python also parses 1_0, and splits at vertical tabs and form feeds.
    if total - total != 0 or not scores or _UNDERSCORE in field or b"\v" in field or b"\f" in field:
        _check_scores(split_tokens(field.strip(FIELD_SPACE)))
    source, target = fields[0], fields[1]
    end = len(source) + len(target) + len(field.rstrip()) + 6
    return PhraseTableLine(line, source.strip(FIELD_SPACE), target.strip(FIELD_SPACE), scores, end)


def _check_scores(scores: Sequence[bytes]) -> None:
    if not scores:
        raise MalformedLine("found no scores", "expected at least one score in the third field")
    for score in scores:
        try:
            finite_number(score)
        except ValueError:
            found = f"found the score {quoted(score)}"
            raise MalformedLine(found, "expected a finite number", "a phrase table") from None


# Moses takes the logarithm of each score and replaces lower values with this one.
LOWEST_LOG_PROBABILITY = -100.0


def log_score(score: float) -> float:
    """Returns the natural logarithm of a score of a phrase table, but at least -100, as in Moses."""
    return max(math.log(score), LOWEST_LOG_PROBABILITY) if score > 0 else LOWEST_LOG_PROBABILITY


# e^88 is the largest power of e, with an integer exponent, that is finite in single precision, which Moses uses.
_MAX_COUNT = 88


def format_probability(log_probability: float) -> str:
    """Formats a log-probability as a probability, which Moses expects in phrase tables.

    Moses stores max(ln p, -100) in single precision. The smallest number written is therefore e^-100, 3.72008e-44, and
    0 is never written. Below 1.2e-38 (ln p under -87.3), numbers are denormal in single precision. Moses reads them,
    with an error of at most 0.02 in ln p. If denormal numbers are switched off, it reads 0, and stores -100.

    Args:
        log_probability: float. Natural logarithm. A positive number, which rounding may cause, is written as 1.

    Returns:
        str, in the format `%.6g` of C.

    Raises:
        ValueError: if it is nan or plus infinity.

    Example:

    >>> format_probability(-0.7), format_probability(-5000.0), format_probability(0.0)
    ('0.496585', '3.72008e-44', '1')
    """
    if not log_probability < math.inf:
        raise ValueError(f"found the log-probability {log_probability}, expected a number up to 0")
    return f"{math.exp(min(0.0, max(LOWEST_LOG_PROBABILITY, log_probability))):.6g}"


def format_exponential(count: int) -> str:
    """Formats a count n as e^n, because Moses takes the logarithm when it loads the table.

    Args:
        count: int. 0 or more. A count above 88, for which e^n is infinite in single precision, is written as 88.

    Returns:
        str, in the format `%.9g` of C: with fewer digits, sums of the logarithms would differ from whole numbers in the
        first six decimals.

    Raises:
        ValueError: if the count is negative.

    Example:

    >>> format_exponential(0), format_exponential(2)
    ('1', '7.3890561')
    """
    if count < 0:
        raise ValueError(f"found the count {count}, expected 0 or more")
    return f"{math.exp(min(count, _MAX_COUNT)):.9g}"


class PhraseTableRecord(NamedTuple):
    """One line of a phrase table file.

    Attributes:
        raw: bytes. The line, without its line feed.
        source: str. The source phrase, still escaped and factored; empty when malformed.
        target: str. The target phrase, still escaped and factored; empty when malformed.
        parsed: PhraseTableLine, or `None` when malformed.
        problem: `None`, or a sentence about the error in a malformed line.
    """

    raw: bytes
    source: str
    target: str
    parsed: PhraseTableLine | None
    problem: str | None


class PhraseTableReader(RecordReader[PhraseTableRecord]):
    r"""Reads a phrase table. Every line gives exactly one record, in order.

    A line is malformed if it has fewer than three fields or no scores, if a score is not a number, if its number of
    scores differs from that of the first well-formed line, or if it is not UTF-8 and no encoding was declared. Phrases
    may be empty, and there may be more than the seven fields of Moses. A byte-order mark is kept in `raw` and removed
    from `source`.

    Use it as a context manager, or call `close`; it iterates once.

    Args:
        path: the table, plain or gzipped.
        encoding: str. The encoding of the file, see `FileEncoding`. Defaults to `None`: UTF-8, and lines with other
            bytes are malformed.
        on_error: str. What to do at a malformed line: "stop" raises an error, "keep" yields a record with a `problem`.
            Defaults to `None`, which raises an error that does not name the flag `--on_error`.

    Attributes:
        lines: InputLines, for progress.
        malformed: int. Malformed lines so far.
        num_scores: int. Number of scores on each line; 0 before the first well-formed line.

    Raises:
        InputError: if the file cannot be read or the encoding cannot be used, and at a malformed line.

    Example:

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table")
    ...     with open(path, "w") as file:
    ...         _ = file.write("le ||| the ||| 0.5 0.25 ||| 0-0\n")
    ...     with PhraseTableReader(path) as table:
    ...         for record in table:
    ...             print(record.source, record.target, record.parsed.append_scores(["0.125"]))
    le the b'le ||| the ||| 0.5 0.25 0.125 ||| 0-0'
    """

    def __init__(self, path: FilePath, encoding: str | None = None, on_error: str | None = None) -> None:
        super().__init__(encoding, on_error)
        self.lines = InputLines(path)
        self._records = self._read()

    def _read(self) -> Generator[PhraseTableRecord]:
        # Takes half the time of the named tuple's own constructor, which counts the arguments.
        new_record: Callable[[type[PhraseTableRecord], tuple[object, ...]], PhraseTableRecord]
        new_record = cast(Any, tuple).__new__
        codec, errors = self._encoding.codec, self._encoding.errors
        mark = BYTE_ORDER_MARK if self._encoding.is_utf8 and self.lines.line_number == 0 else None
        for raw in self.lines:
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
        if self.num_scores:
            expected = f"expected {self.num_scores} as on line {self.num_scores_line}"
            raise MalformedLine(f"found {number} score{'s' * (number > 1)}", expected)
        self.num_scores, self.num_scores_line = number, self.lines.line_number


def number_of_scores(path: FilePath) -> int:
    """Returns the number of scores on the first line of a phrase table.

    Raises:
        InputError: if the table cannot be read or is empty, or its first line is malformed.
    """
    with PhraseTableReader(path, encoding="latin-1") as reader:
        next(iter(reader))
        return reader.num_scores


class PhraseTableFormat(PairFormat):
    """A Moses phrase table. Log-probabilities are added to the scores as probabilities, and counts n as e^n."""

    name = "phrase_table"
    description = "a Moses phrase table"
    reader = PhraseTableReader
    is_tokenized = True
    is_factored = True
    in_moses_ini = True
    has_links = True
    column_texts = {
        ColumnKind.LOG_PROB: ColumnText(format_probability, neutral="1"),
        ColumnKind.COUNT: ColumnText(format_exponential, neutral="1"),
    }

    def links(self, record: Record) -> bytes | None:
        fields = record.raw.split(b"|||", 4)
        return fields[3] if len(fields) > 3 else None

    def add_columns(self, record: Record, columns: Sequence[Column], texts: Sequence[str]) -> bytes:
        table_record: Any = record  # a PhraseTableRecord; a cast would take time on every line
        line: bytes = table_record.parsed.append_scores(texts)
        return line

    def add_neutral_columns(self, record: Record, columns: Sequence[Column]) -> bytes:
        fields = record.raw.split(b"|||", 3)
        if len(fields) < 3 or not fields[2].strip():
            return record.raw  # the line has no scores
        end = sum(map(len, fields[:2])) + len(fields[2].rstrip()) + 6
        neutral = [self.column_texts[column.kind].neutral for column in columns]
        return PhraseTableLine(record.raw, b"", b"", [], end).append_scores(neutral)


class OccurringPhrases:
    """The phrases that occur in sentences. It stores the suffixes of the sentences, not a copy of each phrase.

    Phrases of more than `longest` words are left out; by default, their length is not limited.

    Example:

    >>> phrases = OccurringPhrases([["the", "big", "house"]], longest=2)
    >>> "big house" in phrases, "the big house" in phrases, "big hou" in phrases
    (True, False, False)
    """

    def __init__(self, sentences: Iterable[Sequence[str]], longest: int | None = None) -> None:
        # A phrase occurs if a suffix of a sentence begins with it and a space. Without the space, the phrase could end
        # inside a word.
        self._suffixes = sorted(
            {
                " ".join([*words[start : start + longest if longest else None], ""])
                for words in sentences
                for start in range(len(words))
            }
        )

    def __contains__(self, phrase: str) -> bool:
        index = bisect_left(self._suffixes, f"{phrase} ")
        return index < len(self._suffixes) and self._suffixes[index].startswith(f"{phrase} ")
