"""Adds a model's scores to the lines of a file."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

import numpy as np

from keras_encdec.errors import InputError
from keras_encdec.formats import Column, ColumnKind, InputLines, PairFormat, Record, model_words, pair_format
from keras_encdec.formats.alignments import AlignmentLine, alignment_line
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.pair_format import DECIMALS, WordPair
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.runtime.progress import Progress, counted
from keras_encdec.runtime.shards import windows
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.pair_scorer import PairScorer, PairScores, ScoreCounts, UnknownWords
from keras_encdec.scoring.scoring_options import ScoringOptions, score_columns
from keras_encdec.text.vocabulary import Vocabulary, characters_of

if TYPE_CHECKING:  # clients of a server use this module without Keras
    from keras_encdec.scoring.text_scorer import ModelScorer

# Records that are scored together: equal pairs among them are scored once, and equal sources encoded once.
WINDOW_LINES = 1 << 15
# Windows that are scored at the same time, while others are read and written.
WINDOWS_AT_ONCE = 2
# Names of the forward and the reverse model in warnings and errors.
MODEL_NAMES = "model", "reverse model"


class RecordScorer:
    """Adds scores to the lines of a format.

    In a format that can hold the log-probabilities of tokens, ln p of a target is the sum of the rounded
    log-probabilities of its tokens, whether or not they are written. The columns therefore add up exactly.

    Args:
        pair_format: PairFormat, whose lines can be written again.
        scorers: list of PairScorer, each of which adds a column; the first is that of the forward model.
        options: ScoringOptions: the columns, and the longest pair that is scored. Longer pairs get neutral values, as
            malformed lines do.
        alignment_line: AlignmentLine, which makes the lines of an alignment file from the forward model's attention.
            Defaults to `None`: no alignments.
        vocabularies: list of tuple of Vocabulary: those of the source and the target of each scorer, as the user names
            the sides, to count words and unknown words. Defaults to none: words are not counted.

    Attributes:
        columns: list of Column, the added columns.
        too_long: int. Number of pairs so far that are longer than the options allow.
        word_counts: int array `(scorers, 2, 3)`: for the source and the target as each scorer reads them, the number of
            words so far, of unknown words among them, and of those that are known in lower case.

    Raises:
        ConfigurationError: see `score_columns`.
    """

    def __init__(
        self,
        pair_format: PairFormat,
        scorers: Sequence[PairScorer],
        options: ScoringOptions,
        alignment_line: AlignmentLine | None = None,
        vocabularies: Sequence[tuple[Vocabulary, Vocabulary]] = (),
    ) -> None:
        self._format, self._scorers, self._options = pair_format, scorers, options
        self._alignment_line, self._vocabularies = alignment_line, vocabularies
        self.columns = score_columns(pair_format, options, len(scorers))
        self.too_long: int = 0
        self.word_counts = np.zeros((len(scorers), 2, 3), np.int64)
        self._lock = threading.Lock()

    def __call__(self, records: Sequence[Record]) -> list[list[bytes]]:
        """Scores records and returns their lines; malformed and too long records get neutral values.

        Args:
            records: list of the records that a reader of the format has yielded.

        Returns:
            list of lists of bytes, lines without line feed: the lines with scores and, with an `alignment_line`, the
            lines of the alignments, which are empty for records with neutral values.
        """
        readable = [record for record in records if record.problem is None]
        words = self._words(readable)
        if self._options.max_tokens is not None and (long := _longer(words, self._options.max_tokens)):
            with self._lock:
                self.too_long += len(long)
            words = [[pair for i, pair in enumerate(pairs) if i not in long] for pairs in words]
            problem = f"found more than {counted(self._options.max_tokens, 'tokens')}"
            long_ids = {id(readable[i]) for i in long}
            records = [record._replace(problem=problem) if id(record) in long_ids else record for record in records]
        scores = [self._scores(number, pairs) for number, pairs in enumerate(words)]
        lines = [self._format.with_columns(records, self.columns, self._values(scores, words[0]))]
        if self._alignment_line:
            lines.append(self._alignments(records, words[0], scores[0].attention, self._alignment_line))
        return lines

    def close(self) -> None:
        """Cancels pending computations."""
        for scorer in self._scorers:
            scorer.close()

    def _scores(self, number: int, pairs: Sequence[WordPair]) -> PairScores:
        """Computes the scores of one scorer that the columns need."""
        is_forward = number == 0
        has_tokens = ColumnKind.TOKEN_LOG_PROBS in self._format.column_texts
        scores = self._scorers[number].score_pairs(
            pairs,
            token_log_probs=has_tokens,
            unknown_count=bool(self._vocabularies) or (is_forward and self._options.unknown_count),
            attention=is_forward and self._alignment_line is not None,
        )
        if self._vocabularies:
            lengths = [sum([len(pair[side]) for pair in pairs]) for side in (0, 1)]
            unknown = scores.source_unknown_count, scores.unknown_count
            in_lower_case = [
                sum(
                    vocabulary.known_in_lower_case(pair[side])
                    for pair, count in zip(pairs, counts, strict=False)
                    if count
                )
                for side, (vocabulary, counts) in enumerate(zip(self._vocabularies[number], unknown, strict=True))
            ]
            with self._lock:
                self.word_counts[number] += np.transpose([lengths, list(map(sum, unknown)), in_lower_case])
            self._check_unknown(number)
        if has_tokens:
            tokens = [np.round(row, DECIMALS) for row in scores.token_log_probs]
            log_prob = np.array([row.sum() for row in tokens])
            scores = dataclasses.replace(scores, log_prob=log_prob, token_log_probs=tokens)
        return scores

    def _check_unknown(self, number: int) -> None:
        """Raises InputError if too many of the words that a scorer has read so far are unknown to it."""
        for side, (words, unknown, _) in zip(("source", "target"), self.word_counts[number].tolist(), strict=True):
            self._options.check_unknown(side, words, unknown, f"the {MODEL_NAMES[number]}")

    def _values(self, scores: Sequence[PairScores], pairs: Sequence[WordPair]) -> list[Iterable[object]]:
        """Returns the values of each column, from the scores of each scorer and the forward model's pairs."""
        forward, options = scores[0], self._options
        values: list[Iterable[object]] = [each.log_prob for each in scores]
        if options.unknown_count:
            values.append(forward.unknown_count)
        if options.length:
            values.append([len(target) + 1 for _, target in pairs])
        if options.surprisal_per_character:
            values.append(surprisals_per_character(forward.log_prob, [target for _, target in pairs]))
        if options.token_scores:
            values.append(forward.token_log_probs)
        return values

    def _alignments(
        self,
        records: Sequence[Record],
        pairs: Sequence[WordPair],
        attention: Sequence[np.ndarray],
        alignment_line: AlignmentLine,
    ) -> list[bytes]:
        """Makes the alignment lines of all records; `pairs` and `attention` belong to the scored records alone."""
        scored, encoding = zip(pairs, attention, strict=True), FileEncoding(self._options.encoding)
        lines = []
        for record in records:
            line = ""
            if record.problem is None:
                (source, target), weights = next(scored)
                line = alignment_line(source, target, weights)
            lines.append(encoding.encode_line(line, None))
        return lines

    def _words(self, records: Sequence[Record]) -> list[list[WordPair]]:
        """Returns the pairs of words of the records, for each scorer."""
        factored = self._format.is_factored
        if not self._format.is_tokenized:
            texts = [(record.source, record.target) for record in records]
            return [scorer.all_words(texts, factored) for scorer in self._scorers]
        # This format holds tokenized text. Many lines of a phrase table have the same source, which is split once.
        sources = {text: model_words(text, factored) for text in {record.source for record in records}}
        pairs: list[WordPair] = [(sources[record.source], model_words(record.target, factored)) for record in records]
        return [pairs] * len(self._scorers)


def surprisals_per_character(log_probs: np.ndarray, targets: Sequence[Sequence[str]]) -> np.ndarray:
    """Computes the surprisal of targets in bits per character.

        -log2 p(target | source) / (characters + 1)

    The characters are those of the words, as models with characters spell them (Unicode code points in NFC, at most 50
    of a word), and the spaces between them. The 1 counts the end of the line.

    Args:
        log_probs: float array `(n,)`, ln p of each target.
        targets: list of n lists of words.

    Returns:
        float array `(n,)`, bits.

    Example:

    >>> surprisals_per_character(np.log([0.25, 0.5, 2.0**-51]), [["a"], [], ["a" * 100]]).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    characters = np.array([len(" ".join(map(characters_of, words))) + 1 for words in targets], np.float64)
    bits: np.ndarray = -np.asarray(log_probs) / np.log(2) / characters
    return bits


def _longer(words: Sequence[Sequence[WordPair]], max_tokens: int) -> set[int]:
    """Returns the indices of the pairs that have more than `max_tokens` tokens on a side, for any of the scorers."""
    return {
        i
        for pairs in words
        for i, (source, target) in enumerate(pairs)
        if len(source) > max_tokens or len(target) > max_tokens
    }


#: What a `WindowScorer` scores at once, such as a list of records.
Window = TypeVar("Window", contravariant=True)


class WindowScorer(Protocol[Window]):
    """Makes the new lines of a window of records, as a RecordScorer does."""

    def __call__(self, window: Window, /) -> Sequence[list[bytes]]:
        """Returns the window's lines, without line feed, for each output file. Several threads call it."""

    def close(self) -> None:
        """Cancels pending computations."""


def write_scored_lines(
    scorer: WindowScorer[Window],
    windows: Iterable[Window],
    lines: InputLines,
    outputs: Sequence[BinaryIO],
    side_by_side: int,
    progress: Callable[[InputLines], Progress] = Progress,
) -> Progress:
    """Writes the lines that a scorer makes from windows, in order, and closes the scorer.

    Threads score windows while others are read and written.

    Args:
        scorer: WindowScorer.
        windows: iterable of the windows that the scorer takes.
        lines: InputLines that the windows are read from.
        outputs: list of binary files, open for writing, one for each list of lines that the scorer returns.
        side_by_side: int. Number of windows that are scored at the same time.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.

    Returns:
        Progress, which has counted the written lines.
    """
    started = False
    with (
        progress(lines) as written,
        threads(side_by_side) as executor,
        contextlib.closing(scorer),  # closed before the threads end, so that an error does not wait for their windows
    ):
        for new_lines in in_order(executor, scorer, windows, side_by_side):
            for output, part in zip(outputs, new_lines, strict=True):
                output.write(b"\n" * started + b"\n".join(part))
            written.add(len(new_lines[0]))
            started = True
        # The first output ends as the input does. The last line of another output may be empty, so it gets its line
        # feed.
        for output in outputs if lines.ended_with_newline else outputs[1:]:
            output.write(b"\n")
        for output in outputs:
            output.flush()  # before any of the files appears: the disk may be full
    return written


def scored_windows(
    reader: RecordReader[Record], options: ScoringOptions, columns: Sequence[Column]
) -> Iterator[list[Record]]:
    """Yields the records of a reader in the windows that are scored together, and checks that they can hold columns."""
    known = pair_format(options.format)
    records = _one_for_each_line(reader, known.check_columns(reader, columns))
    return windows(records, WINDOW_LINES, lambda record: known.group(record.raw))


def _one_for_each_line(reader: RecordReader[Record], records: Iterable[Record]) -> Iterator[Record]:
    """Yields the records of a reader; at its end, raises InputError unless it has yielded one for each line."""
    lines, count = reader.lines, 0
    before = lines.line_number
    for record in records:
        count += 1
        yield record
    if count != lines.line_number - before:
        read = counted(lines.line_number - before, "lines")
        found = f"found {counted(count, 'records')} of {type(reader).__name__} for {read}"
        expected = "expected one record for each line"
        remedy = "yield one for blank lines and comments, too, such as the one that malformed_record returns"
        raise InputError(found, expected, remedy, lines.path)


def write_scores(
    reader: RecordReader[Record],
    read: Iterable[Sequence[Record]],
    outputs: Sequence[BinaryIO],
    scorers: Sequence["ModelScorer"],
    options: ScoringOptions,
    progress: Callable[[InputLines], Progress] = Progress,
    side_by_side: int = WINDOWS_AT_ONCE,
) -> tuple[Progress, ScoreCounts]:
    """Writes the lines of a reader with the scores of one or two models, and closes the scorers.

    A scorer that was borrowed stays open, see `TextScorer.open`.

    Args:
        reader: RecordReader.
        read: iterable of windows of its records, see `scored_windows`.
        outputs: list of binary files: one for the lines, and, if the options name one, one for the alignments.
        scorers: list of TextScorer or DryScorer, see `open_scorers`.
        options: ScoringOptions.
        progress: see `score_file`.
        side_by_side: int. Number of windows that are scored at the same time. Defaults to `2`.

    Returns:
        tuple of the Progress of the written lines, and ScoreCounts.
    """
    # A scorer that the caller keeps open has also counted the n-grams of earlier files.
    before = [scorer.ngram_counts for scorer in scorers]
    align = alignment_line(options)
    vocabularies = [scorer.directory.user_vocabularies for scorer in scorers]
    record_scorer = RecordScorer(pair_format(options.format), scorers, options, align, vocabularies)
    written = write_scored_lines(record_scorer, read, reader.lines, outputs, side_by_side, progress)
    ngrams = zip(before, [scorer.ngram_counts for scorer in scorers], strict=True)
    counts = ScoreCounts(
        reader.malformed,
        record_scorer.too_long,
        tuple(_unknown_words(scorers, record_scorer.word_counts.tolist())),
        tuple(after - earlier for earlier, after in ngrams if earlier and after),
        reader.last_problem,
    )
    return written, counts


def _unknown_words(
    scorers: Sequence["ModelScorer"], word_counts: Sequence[Sequence[Sequence[int]]]
) -> Iterator[UnknownWords]:
    """Yields the number of words of each side that a model reads, and how many of them it does not know."""
    for scorer, counts in zip(scorers, word_counts, strict=True):
        directory = scorer.directory
        name = MODEL_NAMES[directory.reverse]
        sides = zip(("source", "target"), directory.user_vocabularies, counts, strict=True)
        for side, vocabulary, (words, unknown, in_lower_case) in sides:
            if side == "target" or len(directory.source_vocabulary):  # a language model's source has no words
                yield UnknownWords(name, side, words, unknown, vocabulary.characters is not None, in_lower_case)
