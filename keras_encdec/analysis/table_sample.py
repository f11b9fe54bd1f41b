"""A sample of a phrase table for the report, read once in bounded memory."""

import dataclasses
import heapq
import itertools
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import FilePath, InputLines, PhraseTableReader, model_words, unescape
from keras_encdec.formats.fields import AROUND, finite_number, split_tokens


class Reservoir:
    """Keeps a uniform random sample of what it is offered, in the order of the stream.

    Args:
        size: int. Items to keep at most.
        seed: int or str. The same seed keeps the same items of the same stream.

    Attributes:
        offered: int. Items offered so far.

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
        self._random, self._kept = random.Random(seed), []

    def offer(self, item: Any) -> None:
        """Offers one more item."""
        self.offered += 1
        if len(self._kept) < self.size:
            self._kept.append((self.offered, item))
        elif (place := self._random.randrange(self.offered)) < self.size:
            self._kept[place] = (self.offered, item)

    def items(self) -> list[Any]:
        """What is kept: list."""
        return [item for _, item in sorted(self._kept, key=lambda kept: kept[0])]


TABLE_SCORE = 2  # p(target | source), the third of Moses's four


@dataclasses.dataclass
class Preferences:
    """The options of one source phrase.

    Attributes:
        source: str.
        options: list of tuples `(target, the table's p(target | source), the model's)`.
        occurrences: float. How often the source was seen, by the table's counts.
    """

    source: str
    options: list
    occurrences: float

    def by_table(self, size: int = 3) -> list[str]:
        """The targets of highest p(target | source) in the table: list of str."""
        return [option[0] for option in heapq.nlargest(size, self.options, key=lambda option: option[1])]

    def by_model(self, size: int = 3) -> list[str]:
        """The targets of highest p(target | source) by the model: list of str."""
        return [option[0] for option in heapq.nlargest(size, self.options, key=lambda option: option[2])]


def read_preferences(path: str | os.PathLike, model_score: int, encoding: str | None = None) -> Iterator[Preferences]:
    """Reads a scored phrase table, one source at a time; the table is sorted by source, as Moses's are.

    Args:
        path: of the table.
        model_score: int. Which score of a line is the model's, counted from 0; the last one is -1.
        encoding: str. Defaults to UTF-8.

    Yields:
        Preferences.

    Raises:
        InputError: when the table cannot be read.
    """
    now = None
    with PhraseTableReader(path, encoding) as table:
        for record in table:
            scores = record.parsed.scores
            source = unescape(record.source)
            if now is None or now.source != source:
                if now:
                    yield now
                now = Preferences(source, [], source_count(record.raw, table.lines))
            now.options.append((unescape(record.target), float(scores[TABLE_SCORE]), float(scores[model_score])))
    if now:
        yield now


def source_count(raw: bytes, lines: InputLines) -> float:
    """How often the source of a line of a table was seen: the second of the counts in the fifth field, 0 without.

    Args:
        raw: bytes. The current line of `lines`.
        lines: InputLines of the table, named in errors.

    Raises:
        InputError: where it is no finite number.
    """
    fields = raw.split(b"|||")
    counts = split_tokens(fields[4].strip(AROUND)) if len(fields) > 4 else []
    if len(counts) < 2:
        return 0.0
    try:
        return finite_number(counts[1])
    except ValueError:
        raise InputError(
            f"found the count {quoted(counts[1])}",
            "expected a finite number",
            "repair or remove the line",
            lines.path,
            lines.line_number,
        ) from None


# "More than three words per phrase", section 4.3 of the paper.
LONG = 4
# Long phrases that Table 2 is chosen from; and what share of them, by frequency, counts as frequent and as rare.
CANDIDATES, EXTREME_SHARE = 20_000, 0.1
# A choice of the best three shows something where there are more than three.
ENOUGH_TARGETS = 4


class TablePair(NamedTuple):
    """A line of a phrase table.

    Attributes:
        source, target: str, as they stand in the table, with Moses's escapes and factors.
        probability: float. The table's p(target | source).
        occurrences: float. How often the source was seen, by the table's counts; 0 where it has none.
    """

    source: str
    target: str
    probability: float
    occurrences: float


@dataclasses.dataclass(frozen=True)
class TableSample:
    """A sample of a phrase table.

    Attributes:
        path: of the table.
        num_pairs: int. Lines of the table.
        pairs: list of TablePair, drawn from all lines.
        phrases: list of str. Distinct source phrases of four words or more, drawn from all of them.
        num_phrases: int. How many such phrases the table has.
        candidates: list of lists of TablePair: all lines of a source phrase of four words or more, drawn from those
            with a choice of targets.
        given: dict from phrases that were asked for to the lists of their lines.
    """

    path: FilePath
    num_pairs: int
    pairs: list[TablePair]
    phrases: list[str]
    num_phrases: int
    candidates: list[list[TablePair]]
    given: dict[str, list[TablePair]]

    def choose_phrases(self, size: int, seed: int) -> dict[str, list[list[TablePair]]]:
        """The phrases of Table 2.

        Args:
            size: int. Phrases of each kind.
            seed: int.

        Returns:
            dict of "given", or of "frequent" and "rare", drawn from the tenth of the long phrases that was seen most
            often and the tenth that was seen least often; "long" where the table has no counts. Each is a list of
            lists of TablePair. Empty where the table has no long phrases.
        """
        if self.given:
            return {"given": list(self.given.values())}
        chooser = random.Random(f"phrases {seed}")
        ordered = sorted(self.candidates, key=lambda lines: (-lines[0].occurrences, lines[0].source))
        if not ordered:
            return {}
        if ordered[0][0].occurrences == ordered[-1][0].occurrences:
            return {"long": chooser.sample(ordered, min(size, len(ordered)))}
        few = max(size, round(EXTREME_SHARE * len(ordered)))
        few = min(few, -(-len(ordered) // 2))
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
    """Reads a phrase table; the lines of a source stand together, as in Moses's tables.

    Args:
        path: of the table.
        pairs: int. Lines to draw. Defaults to `100_000`.
        phrases: int. Long source phrases to draw. Defaults to `5000`.
        given: list of str. Source phrases, without escapes, whose lines are wanted. Defaults to none.
        seed: int. Defaults to `0`.
        encoding: str. Defaults to UTF-8.

    Returns:
        TableSample.

    Raises:
        InputError: when the table cannot be read, has lines of fewer than three scores, or lacks a given phrase.
    """
    lines = Reservoir(pairs, f"pairs {seed}")
    long_phrases, candidates = Reservoir(phrases, f"long {seed}"), Reservoir(CANDIDATES, f"candidates {seed}")
    fewer, found = Reservoir(CANDIDATES, f"fewer {seed}"), dict.fromkeys(given)
    with PhraseTableReader(path, encoding) as table:
        for source, group in itertools.groupby(_pairs(table, path), key=lambda pair: pair.source):
            group = list(group)
            for pair in group:
                lines.offer(pair)
            if found and (plain := plain_text(source)) in found:
                found[plain] = (found[plain] or []) + group
            if len(split_tokens(source)) >= LONG:
                long_phrases.offer(source)
                if len(group) > 1:
                    (candidates if len(group) >= ENOUGH_TARGETS else fewer).offer(group)
    if missing := next((phrase for phrase, group in found.items() if group is None), None):
        raise InputError(
            f"found no line of the source phrase {missing!r}",
            "expected it in the table",
            "check the phrase, which is compared word by word without Moses's escapes",
            path,
        )
    chosen = candidates.items() or fewer.items()
    return TableSample(path, lines.offered, lines.items(), long_phrases.items(), long_phrases.offered, chosen, found)


def plain_text(phrase: str) -> str:
    """A phrase of a table for people to read: its words without factors and Moses's escapes."""
    return " ".join(model_words(phrase))


def _pairs(table, path):
    for record in table:
        scores = record.parsed.scores
        if len(scores) <= TABLE_SCORE:
            plural = "s" * (len(scores) > 1)
            raise InputError(
                f"found {len(scores)} score{plural}",
                "expected three or more, p(target | source) the third as Moses has them",
                "give a table of Moses's scores",
                path,
                table.lines.line_number,
            )
        count = source_count(record.raw, table.lines)
        yield TablePair(record.source, record.target, float(scores[TABLE_SCORE]), count)
