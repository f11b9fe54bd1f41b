"""Reads the scores of the phrase pairs of a table whose source phrases occur in given sentences."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence, Set
from typing import NamedTuple

from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, InputLines, PhraseTableReader, model_words
from keras_encdec.formats.phrase_table import OccurringPhrases, log_score
from keras_encdec.formats.record_reader import LEFT_OUT
from keras_encdec.runtime.progress import Progress, counted


class PositionedPhrase(NamedTuple):
    """A phrase pair of the table, or a copied word, at a position in a sentence.

    Attributes:
        coverage: int. A bit for each word of the sentence that the phrase translates.
        start: int. The first of these words, from 0.
        end: int. The word after the last.
        values: tuple of float: the number of its source words, 1 for the phrase, and ln of each score.
    """

    coverage: int
    start: int
    end: int
    values: tuple[float, ...]

    @property
    def log_scores(self) -> tuple[float, ...]:
        """ln of each score."""
        return self.values[2:]


@dataclasses.dataclass(frozen=True)
class PhraseScores:
    """Phrase pairs with their scores. Phrases are words joined by spaces, without factors and escapes.

    Attributes:
        pairs: dict from source phrase to dict from target phrase to list of tuples of ln of the scores, one for each
            line of the table.
        num_scores: int. Number of scores of each pair.
        longest: int. Number of words in the longest target phrase, 1 or more.
        malformed: int. Number of malformed lines of the table, which were left out.
    """

    pairs: dict[str, dict[str, list[tuple[float, ...]]]]
    num_scores: int
    longest: int
    malformed: int = 0

    @functools.cached_property
    def _longest_source(self) -> int:
        return max((source.count(" ") + 1 for source in self.pairs), default=1)

    def options_at(self, words: Sequence[str], start: int, end: int, target: str) -> list[PositionedPhrase]:
        """Returns the ways to translate the words from `start` to `end`, exclusive, of a sentence into a given target.

        Returns:
            list of PositionedPhrase, one for each line of the table with the pair, in their order. A word without a
            phrase in the table may be copied or, with Moses's `-drop-unknown`, dropped; all log-scores are then 0.
        """
        source = " ".join(words[start:end])
        targets = self.pairs.get(source)
        if targets is not None:
            scores = targets.get(target, [])
        else:
            scores = [(0.0,) * self.num_scores] if end == start + 1 and target in (source, "") else []
        coverage = (1 << end) - (1 << start)
        return [PositionedPhrase(coverage, start, end, (end - start, 1, *log_scores)) for log_scores in scores]

    def options(self, words: Sequence[str], targets: Set[str]) -> dict[str, list[PositionedPhrase]]:
        """Returns the ways to translate any phrase of a sentence into each target.

        Args:
            words: list of str. The sentence.
            targets: set of str. Phrases of its translations. A word without a phrase in the table was dropped if it is
                not among them.

        Returns:
            dict from target to list of PositionedPhrase, sorted by their first word, then by their last, then in the
            order of the table. Targets without an option are left out.
        """
        options: dict[str, list[PositionedPhrase]] = {}
        for start in range(len(words)):
            for end in range(start + 1, min(len(words), start + self._longest_source) + 1):
                source = " ".join(words[start:end])
                known = self.pairs.get(source)
                if known is None and end > start + 1:
                    continue
                possible = {source if source in targets else ""} if known is None else known.keys()
                for target in targets & possible:
                    options.setdefault(target, []).extend(self.options_at(words, start, end, target))
        return options


def read_phrase_scores(
    path: FilePath,
    sentences: Collection[Sequence[str]],
    min_scores: int = 1,
    *,
    encoding: str | None = None,
    on_error: str = "stop",
    progress: Callable[[InputLines], Progress] = Progress,
) -> PhraseScores:
    """Reads the scores of the phrase pairs of a table whose source phrases occur in sentences.

    Memory holds the sentences and these pairs.

    Args:
        path: the phrase table, plain or gzipped. Pairs with a negative score are left out, as Moses leaves them out.
        sentences: list of list of str, words without factors and escapes.
        min_scores: int. Minimum number of scores on each line. Defaults to `1`.
        encoding: str. The table's encoding. Defaults to `None`: UTF-8, and other bytes are an error.
        on_error: str. At a malformed line, "stop" raises an error; "keep" leaves it out and counts it. Defaults to
            "stop".
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.

    Returns:
        PhraseScores. As in Moses, ln of a score is at least -100.

    Raises:
        InputError: if the table cannot be read or has fewer scores.
    """
    sources = OccurringPhrases(sentences)
    pairs: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    last_source: str | None = None
    targets: dict[str, list[tuple[float, ...]]] | None = None
    longest = 1
    with PhraseTableReader(path, encoding, on_error) as reader, progress(reader.lines) as read:
        reader.kept = LEFT_OUT
        for record in reader:
            read.add(1)
            if record.parsed is None:
                continue
            if len(record.parsed.scores) < min_scores:
                expected = f"expected at least {min_scores}"
                remedy = "give the table that encdec-score wrote, or the number of another score (--feature)"
                raise reader.lines.error(f"found {counted(len(record.parsed.scores), 'scores')}", expected, remedy)
            if record.source != last_source:
                last_source = record.source
                source = " ".join(model_words(last_source))
                targets = pairs.setdefault(source, {}) if source in sources else None
            if targets is None:
                continue
            scores = [float(score) for score in record.parsed.scores]
            if min(scores) >= 0:  # Moses does not translate with other pairs, so they are in none of its hypotheses
                words = model_words(record.target)
                longest = max(longest, len(words))
                targets.setdefault(" ".join(words), []).append(tuple(map(log_score, scores)))
        if not reader.num_scores:
            found = f"found {counted(reader.malformed, 'lines')}, all malformed"
            raise InputError(found, "expected a phrase table", "give another file", path)
    known = {source: targets for source, targets in pairs.items() if targets}
    return PhraseScores(known, reader.num_scores, longest, reader.malformed)
