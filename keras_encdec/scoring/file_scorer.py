"""Scores the records of a file, or of a part of it, with the models of a job."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Self

from keras_encdec.formats import Column, InputLines, Record, pair_format
from keras_encdec.formats.alignments import alignment_line, check_carries_attention
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.shards import windows
from keras_encdec.scoring.pair_scorer import NgramCounts, UnknownWords
from keras_encdec.scoring.record_scorer import RecordScorer, write_scored_lines
from keras_encdec.scoring.scoring_options import ScoringOptions
from keras_encdec.scoring.text_scorer import DryScorer, ModelOrPath, TextScorer

# Records that are scored together: equal pairs among them are scored once, and equal sources encoded once.
WINDOW = 1 << 15
# Windows that are scored at the same time, while others are read and written.
WINDOWS = 2


def scored_windows(
    reader: RecordReader[Record], options: ScoringOptions, columns: Sequence[Column]
) -> Iterator[list[Record]]:
    """Yields the records of a reader in the windows that are scored together, and checks that they can hold columns."""
    known = pair_format(options.format)
    return windows(known.check_columns(reader, columns), WINDOW, lambda record: known.group(record.raw))


@dataclasses.dataclass(frozen=True)
class ScoreCounts:
    """What a summary counts, of a file or of a part of it.

    Attributes:
        malformed: int. Malformed lines.
        too_long: int. Lines with more than `max_tokens` tokens.
        unknown_words: tuple of UnknownWords, one for each side and model.
        ngrams: tuple of NgramCounts, one for each model of limited context.
    """

    malformed: int = 0
    too_long: int = 0
    unknown_words: tuple[UnknownWords, ...] = ()
    ngrams: tuple[NgramCounts, ...] = ()

    def __add__(self, other: Self) -> "ScoreCounts":
        words = (
            dataclasses.replace(one, words=one.words + two.words, unknown=one.unknown + two.unknown)
            for one, two in zip(self.unknown_words, other.unknown_words, strict=True)
        )
        ngrams = (one + two for one, two in zip(self.ngrams, other.ngrams, strict=True))
        return ScoreCounts(
            self.malformed + other.malformed, self.too_long + other.too_long, tuple(words), tuple(ngrams)
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ScoreCounts":
        """Makes the counts of which `dataclasses.asdict` has made a dict."""
        words = tuple(UnknownWords(**each) for each in values["unknown_words"])
        ngrams = tuple(NgramCounts(**each) for each in values["ngrams"])
        return cls(values["malformed"], values["too_long"], words, ngrams)


class FileScorer:
    """Scores the records of a reader with one or two models.

    Args:
        options: ScoringOptions.
        model_dir: see `score_file`.
        reverse_model_dir: see `score_file`. Optional.

    Raises:
        InputError: when a model cannot be used.
    """

    def __init__(
        self, options: ScoringOptions, model_dir: ModelOrPath, reverse_model_dir: ModelOrPath | None = None
    ) -> None:
        self._options = options
        self._scorers = [_open_scorer(model_dir, "--model_dir", False, options)]
        if reverse_model_dir is not None:
            self._scorers.append(_open_scorer(reverse_model_dir, "--reverse_model_dir", True, options))
        check_carries_attention(options.alignments, self._scorers[0].carries_attention)

    def write(
        self,
        reader: RecordReader[Record],
        read: Iterable[Sequence[Record]],
        outputs: Sequence[BinaryIO],
        progress: Callable[[InputLines], Progress] = Progress,
        side_by_side: int = WINDOWS,
    ) -> tuple[Progress, ScoreCounts]:
        """Writes the lines of the reader with their scores, and closes the models unless the caller lent them.

        Args:
            reader: RecordReader.
            read: iterable of windows of its records, see `scored_windows`.
            outputs: list of binary files: one for the lines, and, if the options name one, one for the alignments.
            progress: see `score_file`.
            side_by_side: int. Number of windows that are scored at the same time. Defaults to `2`.

        Returns:
            tuple of the Progress of the written lines, and ScoreCounts.
        """
        options, scorers = self._options, self._scorers
        # A scorer that the caller lends has counted the n-grams of other files.
        before = [scorer.ngram_counts for scorer in scorers]
        align = alignment_line(options.alignments, options.alignment_format, output="")
        record_scorer = RecordScorer(pair_format(options.format), scorers, options, align, count_words=True)
        written = write_scored_lines(record_scorer, read, reader.lines, outputs, side_by_side, progress)
        ngrams = zip(before, [scorer.ngram_counts for scorer in scorers], strict=True)
        counts = ScoreCounts(
            reader.malformed,
            record_scorer.too_long,
            tuple(_unknown_words(scorers, record_scorer.word_counts.tolist())),
            tuple(after - earlier for earlier, after in ngrams if earlier and after),
        )
        return written, counts


def _open_scorer(model: ModelOrPath, flag: str, reverse: bool, options: ScoringOptions) -> TextScorer | DryScorer:
    scorer = DryScorer(model) if options.dry_run else TextScorer.open(model, options.dtype)
    scorer.directory.check_direction(reverse, flag)
    return scorer


def _unknown_words(
    scorers: Sequence[TextScorer | DryScorer], word_counts: Sequence[Sequence[Sequence[int]]]
) -> Iterator[UnknownWords]:
    """Yields the number of words of each side that a model reads, and how many of them it does not know."""
    for scorer, (source, target) in zip(scorers, word_counts, strict=True):
        name = "reverse model" if scorer.directory.reverse else "model"
        if len(scorer.directory.source_vocabulary):  # a language model's has no words
            yield UnknownWords(name, "source", *source)
        yield UnknownWords(name, "target", *target)
