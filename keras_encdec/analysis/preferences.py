"""Table 2 of the paper: the targets that the phrase table prefers, and those that the model prefers."""

import dataclasses
import heapq
import os
from collections.abc import Iterator

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import InputLines, PhraseTableReader, unescape
from keras_encdec.formats.numbers import finite_number
from keras_encdec.formats.tokens import AROUND, split_tokens

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


def read_preferences(
    path: str | os.PathLike, model_score: int, encoding: str | None = None
) -> Iterator[Preferences]:
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
            f"found the count {quoted(counts[1])}", "expected a finite number", "repair or remove the line",
            lines.path, lines.line_number,
        ) from None  # fmt: skip
