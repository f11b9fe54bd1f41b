"""Reads a sample of a phrase table for the report, in bounded memory."""

import dataclasses
import heapq
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import FilePath, InputLines, PhraseTableReader, model_words, unescape
from keras_encdec.formats.fields import FIELD_SPACE, check_texts, finite_number, split_tokens
from keras_encdec.runtime.progress import counted

_Item = TypeVar("_Item")


class Reservoir(Generic[_Item]):
    """Keeps a uniform random sample of the items of a stream, in the order of the stream.

    Args:
        size: int. Maximum number of items to keep.
        seed: int or str. With the same seed, the same items of the same stream are kept.

    Attributes:
        offered: int. Number of items offered so far.

    Example:

    >>> reservoir = Reservoir(2, seed=1)
    >>> for number in range(100):
    ...     reservoir.offer(number)
    >>> len(reservoir.items()), reservoir.offered
    (2, 100)

    Reference:
        - Vitter, 1985, Random sampling with a reservoir, algorithm R
    """

    def __init__(self, size: int, seed: int | str) -> None:
        self.size, self.offered = size, 0
        self._random = random.Random(seed)
        self._kept: list[tuple[int, _Item]] = []

    def offer(self, item: _Item) -> None:
        """Offers the next item of the stream."""
        self.offered += 1
        if len(self._kept) < self.size:
            self._kept.append((self.offered, item))
        elif (index := self._random.randrange(self.offered)) < self.size:
            self._kept[index] = (self.offered, item)

    def items(self) -> list[_Item]:
        """Returns the sample."""
        return [item for _, item in sorted(self._kept, key=lambda kept: kept[0])]


# Index of p(target | source) among Moses's four scores.
TABLE_SCORE = 2


@dataclasses.dataclass
class Preferences:
    """The target options of a source phrase.

    Attributes:
        source: str.
        options: list of tuples `(target, p(target | source) in the table, p(target | source) by the model)`.
        occurrences: float. Count of the source in the table.
    """

    source: str
    options: list[tuple[str, float, float]]
    occurrences: float

    def by_table(self, size: int = 3) -> list[str]:
        """Returns the targets with the highest p(target | source) in the table."""
        return [option[0] for option in heapq.nlargest(size, self.options, key=lambda option: option[1])]

    def by_model(self, size: int = 3) -> list[str]:
        """Returns the targets with the highest p(target | source) by the model."""
        return [option[0] for option in heapq.nlargest(size, self.options, key=lambda option: option[2])]


def read_preferences(path: FilePath, model_score: int, encoding: str | None = None) -> Iterator[Preferences]:
    """Reads a scored phrase table, one source at a time. The table must be sorted by source, as Moses's tables are.

    Args:
        path: the table.
        model_score: int. Index of the model's score in a line, from 0; -1 for the last score.
        encoding: str. Defaults to UTF-8.

    Raises:
        InputError: if the table cannot be read, or its lines do not have these scores.
    """
    current = None
    with PhraseTableReader(path, encoding) as table:
        for record in table:
            assert record.parsed is not None  # the reader stops at a malformed line
            scores = record.parsed.scores
            if not -len(scores) <= model_score < len(scores) or len(scores) <= TABLE_SCORE:
                raise table.lines.error(
                    f"found {counted(len(scores), 'scores')}",
                    f"expected the table's p(target | source) as the third and the model's at the index {model_score}",
                    "give a table that encdec-score has written, and model_score=-1 for its last score",
                )
            source = unescape(record.source)
            if current is None or current.source != source:
                if current:
                    yield current
                current = Preferences(source, [], source_count(record.raw, table.lines))
            current.options.append((unescape(record.target), float(scores[TABLE_SCORE]), float(scores[model_score])))
    if current:
        yield current


def source_count(raw: bytes, lines: InputLines) -> float:
    """Reads the source's count from the current line of a table: the second in the fifth field; 0 if there is none.

    Raises:
        InputError: if the count is not a finite number.
    """
    fields = raw.split(b"|||")
    counts = split_tokens(fields[4].strip(FIELD_SPACE)) if len(fields) > 4 else []
    if len(counts) < 2:
        return 0.0
    try:
        return finite_number(counts[1])
    except ValueError:
        found = f"found the count {quoted(counts[1])}"
        raise lines.error(found, "expected a finite number", "repair or remove the line") from None


# "More than three words per phrase", section 4.3 of the paper.
LONG = 4
# Number of long phrases from which those of Table 2 are chosen, and the share of them that counts as frequent or rare.
CANDIDATES, EXTREME_SHARE = 20_000, 0.1
# Table 2 shows three targets, so phrases with more targets than that are preferred.
ENOUGH_TARGETS = 4
# If there are fewer of these, phrases with two or three targets are added.
ENOUGH_CANDIDATES = 100


class TablePair(NamedTuple):
    """A line of a phrase table.

    Attributes:
        source, target: str, as in the table, with Moses's escapes and factors.
        probability: float. p(target | source) in the table.
        occurrences: float. Count of the source in the table; 0 if the table has no counts.
    """

    source: str
    target: str
    probability: float
    occurrences: float


@dataclasses.dataclass(frozen=True)
class TableSample:
    """A sample of a phrase table.

    Attributes:
        path: the table.
        num_pairs: int. Number of lines of the table.
        pairs: list of TablePair, a random sample of the lines.
        phrases: list of str. A random sample of the distinct source phrases of four words or more.
        num_phrases: int. Number of such phrases in the table.
        candidates: list of lists of TablePair, each with all lines of a source phrase of four words or more: a random
            sample of the phrases with several targets.
        given: dict from given phrase to list of its lines.
    """

    path: FilePath
    num_pairs: int
    pairs: list[TablePair]
    phrases: list[str]
    num_phrases: int
    candidates: list[list[TablePair]]
    given: dict[str, list[TablePair]]

    def choose_phrases(self, size: int, seed: int) -> dict[str, list[list[TablePair]]]:
        """Chooses the phrases of Table 2.

        Args:
            size: int. Number of phrases of each kind.
            seed: int. Random seed.

        Returns:
            dict from kind to list of lists of TablePair. The kinds are "frequent" and "rare", drawn from the most
            frequent and the least frequent tenth of the candidates, or from up to `size` if a tenth has fewer; or
            "long", if the table has no counts; or "given", if phrases were given. Empty without candidates.
        """
        if self.given:
            return {"given": list(self.given.values())}
        chooser = random.Random(f"phrases {seed}")
        ordered = sorted(self.candidates, key=lambda lines: (-lines[0].occurrences, lines[0].source))
        if not ordered:
            return {}
        if ordered[0][0].occurrences == ordered[-1][0].occurrences:
            return {"long": chooser.sample(ordered, min(size, len(ordered)))}
        few = min(max(size, round(EXTREME_SHARE * len(ordered))), -(-len(ordered) // 2))
        kinds = {"frequent": ordered[:few], "rare": ordered[few:][-few:]}
        return {kind: chooser.sample(lines, min(size, len(lines))) for kind, lines in kinds.items()}


def read_table_sample(
    path: FilePath,
    pairs: int = 100_000,
    phrases: int = 5000,
    given: Sequence[str] = (),
    seed: int = 0,
    encoding: str | None = None,
) -> TableSample:
    """Reads a phrase table. The lines of a source must be consecutive, as in Moses's tables.

    Args:
        path: the table.
        pairs: int. Number of lines to draw. Defaults to `100_000`.
        phrases: int. Number of long source phrases to draw. Defaults to `5000`.
        given: list of str. Source phrases, without escapes, whose lines to keep. Defaults to none.
        seed: int. Random seed. Defaults to `0`.
        encoding: str. Defaults to UTF-8.

    Raises:
        InputError: if the table cannot be read, has lines of fewer than three scores, or lacks a given phrase.
    """
    check_texts(given)
    lines: Reservoir[TablePair] = Reservoir(pairs, f"pairs {seed}")
    long_phrases: Reservoir[str] = Reservoir(phrases, f"long {seed}")
    candidates: Reservoir[list[TablePair]] = Reservoir(CANDIDATES, f"candidates {seed}")
    fewer: Reservoir[list[TablePair]] = Reservoir(CANDIDATES, f"fewer {seed}")
    lines_of_given: dict[str, list[TablePair]] = {phrase: [] for phrase in given}
    with PhraseTableReader(path, encoding) as table:
        for source, pairs_of_source in itertools.groupby(_pairs(table), key=lambda pair: pair.source):
            group = list(pairs_of_source)
            for pair in group:
                lines.offer(pair)
            if given and (plain := plain_text(source)) in lines_of_given:
                lines_of_given[plain] += group
            if len(split_tokens(source)) >= LONG:
                long_phrases.offer(source)
                if len(group) > 1:
                    (candidates if len(group) >= ENOUGH_TARGETS else fewer).offer(group)
    if missing := next((phrase for phrase, group in lines_of_given.items() if not group), None):
        remedy = "check the phrase; it is compared word by word, without Moses's escapes"
        raise InputError(f"found no line of the source phrase {missing!r}", "expected it in the table", remedy, path)
    chosen = candidates.items()
    chosen += fewer.items()[: max(0, ENOUGH_CANDIDATES - len(chosen))]
    return TableSample(
        path, lines.offered, lines.items(), long_phrases.items(), long_phrases.offered, chosen, lines_of_given
    )


def plain_text(phrase: str) -> str:
    """Converts a phrase of a table to plain text: its words without factors and Moses's escapes."""
    return " ".join(model_words(phrase))


def _pairs(table: PhraseTableReader) -> Iterator[TablePair]:
    for record in table:
        assert record.parsed is not None  # the reader stops at a malformed line
        scores = record.parsed.scores
        if len(scores) <= TABLE_SCORE:
            found = f"found {counted(len(scores), 'scores')}"
            expected = "expected three or more, of which the third is p(target | source)"
            raise table.lines.error(found, expected, "give a phrase table with Moses's scores")
        count = source_count(record.raw, table.lines)
        yield TablePair(record.source, record.target, float(scores[TABLE_SCORE]), count)
