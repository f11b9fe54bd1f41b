"""Writes a file again with a model's scores."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import Column, ColumnKind, FilePath, InputLines, open_output, pair_format, rewrite_moses_ini
from keras_encdec.formats.alignments import alignment_line, check_carries_attention
from keras_encdec.runtime.files import STANDARD_STREAM, check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.scoring.pair_scorer import NgramCounts, UnknownWords
from keras_encdec.scoring.record_scorer import RecordScorer, score_columns, windows, write_scored_lines
from keras_encdec.scoring.scoring_options import ScoringOptions
from keras_encdec.scoring.text_scorer import DryScorer, ModelOrPath, TextScorer


def scored_moses_ini(
    path: str | os.PathLike[str],
    table: str | os.PathLike[str],
    columns: Sequence[Column],
    feature: str | None = None,
    table_scores: int | None = None,
) -> tuple[bytes, list[str]]:
    """Makes the moses.ini of a phrase table with added scores from the moses.ini of the input table.

    An added probability gets the mean of the table's weights, a count the weight 0: it is written as e^n, which is not
    a probability, and a positive weight would reward words outside the shortlist. Tuning sets the weights.

    Args:
        path: moses.ini of the input table.
        table: path of the table with added scores.
        columns: list of Column, the added scores.
        feature: str. Name of the table's feature, where the file has several tables. Optional.
        table_scores: int. Number of scores on each line of the input table, to be checked. Optional.

    Returns:
        A tuple of the new file's bytes and notices for the user, list of str.

    Raises:
        InputError: when the file cannot be read, or does not match the table.
    """
    weights = [None if column.kind is ColumnKind.LOG_PROB else 0.0 for column in columns]
    path = pathlib.Path(path)
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise InputError(f"could not be read ({error.strerror})", remedy="check --moses_ini", path=path) from None
    text, notices = rewrite_moses_ini(text, os.path.abspath(table), len(weights), feature, weights, table_scores, path)
    return text.encode("utf-8", "surrogateescape"), notices


# Records that are scored together: equal pairs among them are scored once, and equal sources encoded once.
WINDOW = 1 << 15
# Windows that are scored at the same time, while others are read and written.
WINDOWS = 2


@dataclasses.dataclass(frozen=True)
class ScoreSummary(FileSummary):
    """Summary of a call of `score_file`.

    Attributes:
        lines: int. Lines written.
        seconds: float.
        output: the file.
        malformed: int. Malformed lines, which were written with a neutral score.
        dry_run: bool. Whether it was a dry run, whose output is discarded.
        notices: tuple of str: notices for the user about the new moses.ini.
        too_long: int. Written lines with more than `max_tokens` tokens, which were written with a neutral score.
        max_tokens: int, the option.
        unknown_words: tuple of UnknownWords, one for each side and model.
        ngrams: tuple of NgramCounts, one for each model of limited context, such as `FeedForwardLanguageModel`.
    """

    malformed: int = 0
    dry_run: bool = False
    notices: tuple[str, ...] = ()
    too_long: int = 0
    max_tokens: int | None = None
    unknown_words: tuple[UnknownWords, ...] = ()
    ngrams: tuple[NgramCounts, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """Sentences for the user about the lines."""
        neutral = f"{'would be' if self.dry_run else 'were'} written with a neutral score."
        remarks = ["; ".join(map(str, self.unknown_words)) + "."] if self.unknown_words else []
        remarks += [f"{counts}." for counts in self.ngrams]
        if self.malformed:
            remarks.append(f"{self.malformed:,} malformed lines {neutral}")
        if self.too_long:
            remarks.append(f"{self.too_long:,} lines of more than {self.max_tokens:,} tokens (max_tokens) {neutral}")
        remarks += [
            f"warning: most of the {words.side} words are unknown to the {words.model}, whose scores mean little then; "
            "check the language of the file, which side is which, and how its text is tokenized."
            for words in self.unknown_words
            if words.is_high
        ]
        return remarks

    @property
    def _result(self) -> str | os.PathLike[str]:
        return "a dry run, nothing was written" if self.dry_run else super()._result


def score_file(
    model_dir: ModelOrPath,
    input: FilePath,
    output: FilePath,
    options: ScoringOptions | None = None,
    *,
    reverse_model_dir: ModelOrPath | None = None,
    progress: Callable[[InputLines], Progress] = Progress,
    **values: Any,
) -> ScoreSummary:
    """Writes a file of pairs again, with the model's scores on each line.

    A phrase table gets probabilities, TSV and parallel text (which is written as TSV) ln p in new columns, a Moses
    n-best list ln p as new features. The output has the same number of lines in the same order, and appears when it is
    complete.

    Args:
        model_dir: directory of the model that gives p(target | source); or a loaded ModelDirectory; or a TextScorer,
            which stays open, keeps its dtype, and reuses its compiled functions for the next file.
        input: the file, plain or gzipped; of parallel text that of the targets. "-" is the standard input.
        output: file to write, gzipped if its name ends in .gz. "-" is the standard output.
        options: ScoringOptions. Defaults to `None`: the defaults of the command.
        reverse_model_dir: directory of a model trained with the sides swapped, for p(source | target) as a second
            score; a ModelDirectory or a TextScorer of it. Optional.
        progress: callable of the InputLines that are read, which returns a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Returns:
        ScoreSummary.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
        InputError: when a model, an input or the output cannot be used.

    Example:

        options = ScoringOptions(length=True)
        summary = score_file("model", "phrase-table.gz", "scored.gz", options, progress=ReadingProgress)
        print(summary)
    """
    options = ScoringOptions.combined(options, values)
    known = pair_format(options.format)
    keep = not options.dry_run
    if options.moses_ini is not None and output == STANDARD_STREAM:
        raise ConfigurationError("found {moses_ini} with {output}=-, expected a file that moses.ini can name")
    align = alignment_line(options.alignments, options.alignment_format, output)
    check_distinct_files(input, options.source, output, options.moses_ini, options.moses_ini_out, options.alignments)
    columns = score_columns(known, options, 1 + (reverse_model_dir is not None))
    notices = []
    with (
        known.open_reader(input, options.source, options.encoding, options.on_error) as reader,
        contextlib.ExitStack() as outputs,
    ):
        output_file = outputs.enter_context(open_output(output, keep=keep))
        written_files = [output_file]
        if options.alignments:
            written_files.append(outputs.enter_context(open_output(options.alignments, keep=keep)))
        read = windows(known.check_columns(reader, columns), WINDOW)
        ini_out = options.moses_ini_out
        ini_file = outputs.enter_context(open_output(ini_out, keep=keep)) if ini_out else None
        first = next(read)
        # Reads the other inputs first, so that their errors appear before hours of scoring.
        if options.moses_ini and ini_file:
            ini, notices = scored_moses_ini(
                options.moses_ini, output, columns, options.moses_feature, reader.num_scores or None
            )
            ini_file.write(ini)
        scorers = [_open_scorer(model_dir, "--model_dir", False, options)]
        if reverse_model_dir is not None:
            scorers.append(_open_scorer(reverse_model_dir, "--reverse_model_dir", True, options))
        check_carries_attention(options.alignments, scorers[0].carries_attention)
        # A scorer that the caller lends has counted the n-grams of other files.
        ngrams_before = [scorer.ngram_counts for scorer in scorers]
        record_scorer = RecordScorer(known, scorers, options, align, count_words=True)
        written = write_scored_lines(
            record_scorer, itertools.chain([first], read), reader.lines, written_files, WINDOWS, progress
        )
    counts = zip(ngrams_before, [scorer.ngram_counts for scorer in scorers], strict=True)
    return ScoreSummary(
        written.count,
        written.seconds,
        output,
        reader.malformed,
        options.dry_run,
        tuple(notices),
        record_scorer.too_long,
        options.max_tokens,
        tuple(_unknown_words(scorers, record_scorer.word_counts)),
        tuple(after - before for before, after in counts if before and after),
    )


def _open_scorer(model: ModelOrPath, flag: str, reverse: bool, options: ScoringOptions) -> TextScorer | DryScorer:
    scorer = DryScorer(model) if options.dry_run else TextScorer.open(model, options.dtype)
    scorer.directory.check_direction(reverse, flag)
    return scorer


def _unknown_words(scorers: Sequence[TextScorer | DryScorer], word_counts: np.ndarray) -> Iterator[UnknownWords]:
    """Yields the number of words of each side that a model reads, and how many of them it does not know."""
    for scorer, (source, target) in zip(scorers, word_counts.tolist(), strict=True):
        name = "reverse model" if scorer.directory.reverse else "model"
        if len(scorer.directory.source_vocabulary):  # a language model's has no words
            yield UnknownWords(name, "source", *source)
        yield UnknownWords(name, "target", *target)
