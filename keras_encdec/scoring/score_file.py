"""Writes a copy of a file with a model's scores."""

import dataclasses
import itertools
import os
from collections.abc import Callable, Sequence

from keras_encdec.formats import Column, FilePath, InputLines, Record, pair_format
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.open_output import open_outputs
from keras_encdec.runtime.progress import Progress, ShardedFileSummary, counted
from keras_encdec.scoring.pair_scorer import NgramCounts, UnknownWords
from keras_encdec.scoring.record_scorer import scored_windows, write_scores
from keras_encdec.scoring.scoring_options import ScoringOptions, score_columns
from keras_encdec.scoring.sharded_scoring import WrittenScores, score_in_shards
from keras_encdec.scoring.text_scorer import ModelOrPath, open_scorers


@dataclasses.dataclass(frozen=True)
class ScoreSummary(ShardedFileSummary):
    """Summary of a call of `score_file`.

    Attributes:
        lines, seconds, output: see `FileSummary`.
        malformed: int. Malformed lines, which were written with a neutral score, or unchanged if they have no field for
            it.
        dry_run: bool. Whether it was a dry run, whose output is discarded.
        moses_ini_notices: tuple of str: notices for the user about the new moses.ini, with its path.
        too_long: int. Written lines with more than `max_tokens` tokens, which were written with a neutral score.
        max_tokens: int, the option.
        unknown_words: tuple of UnknownWords, one for each side and model.
        ngrams: tuple of NgramCounts, one for each model of limited context, such as `FeedForwardLanguageModel`.
        before: int. Lines in shards that an interrupted earlier call had scored.
    """

    malformed: int = 0
    dry_run: bool = False
    moses_ini_notices: tuple[str, ...] = ()
    too_long: int = 0
    max_tokens: int | None = None
    unknown_words: tuple[UnknownWords, ...] = ()
    ngrams: tuple[NgramCounts, ...] = ()

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about the new moses.ini and the lines."""
        neutral = f"{'would get' if self.dry_run else 'got'} a neutral score"
        notices = list(self.moses_ini_notices)
        notices += ["; ".join(map(str, self.unknown_words)) + "."] if self.unknown_words else []
        notices += [f"{counts}." for counts in self.ngrams]
        if self.before:
            notices.append(f"An interrupted command had already scored {counted(self.before, 'lines')}.")
        if self.malformed:
            lines = counted(self.malformed, "malformed lines")
            notices.append(f"{lines} {neutral}; a line without a field for it stays unchanged.")
        if self.too_long and self.max_tokens:
            lines, tokens = counted(self.too_long, "lines"), counted(self.max_tokens, "tokens")
            notices.append(f"{lines} of more than {tokens} (max_tokens) {neutral}.")
        for words in self.unknown_words:
            notices += words.warnings("scores", "the language of the file, which side is which")
        return notices

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
    show: Callable[[str], object] | None = None,
    **values: object,
) -> ScoreSummary:
    """Writes a copy of a file of pairs with the model's scores on each line.

    A phrase table gets probabilities. TSV gets ln p in new columns, and so does parallel text, which is written as TSV.
    A Moses n-best list gets ln p as new features. The output has the same number of lines in the same order, and
    appears when it is complete.

    With `number_of_processes` or `shard_lines` the work is done in shards. The folder OUTPUT.shards keeps finished
    shards: after an interruption, the same call scores only the others, and writes the same bytes. A program that uses
    several processes must keep its own work under `if __name__ == "__main__":`.

    Args:
        model_dir: directory of the model that gives p(target | source); or a loaded ModelDirectory; or a TextScorer,
            which stays open, keeps its dtype, and reuses its compiled functions for the next file.
        input: the file, plain or gzipped; for parallel text, the file of targets. "-" means standard input.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        options: ScoringOptions. Defaults to `None`: the defaults of the command.
        reverse_model_dir: directory of a model trained with the sides swapped, for p(source | target) as a second
            score; a ModelDirectory or a TextScorer of it. Optional.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        show: function that is called with sentences for the user before the processing of shards starts: the disk space
            that it needs, and the lines that an earlier call has scored. Defaults to `None`: nothing is shown.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
        InputError: if a model, an input or the output cannot be used.

    Example:

        options = ScoringOptions(length=True)
        summary = score_file("model", "phrase-table.gz", "scored.gz", options, progress=ReadingProgress)
        print(summary)
    """
    options = ScoringOptions.combined(options, values)
    options.check_output(output)
    moses_ini = options.moses_ini, options.moses_ini_out
    check_distinct_files(input, options.source, output, *moses_ini, options.alignments, options.lexical_shortlist)
    models = [model_dir] if reverse_model_dir is None else [model_dir, reverse_model_dir]
    columns = score_columns(pair_format(options.format), options, len(models))

    def scored_ini(reader: RecordReader[Record]) -> tuple[bytes, list[str]]:
        return options.scored_moses_ini(output, columns, reader.num_scores)

    if options.in_shards:
        scores = score_in_shards(options, models, input, output, columns, scored_ini, progress, show)
    else:
        scores = _score_in_order(options, models, input, output, columns, scored_ini, progress)
    return ScoreSummary(
        scores.written.count,
        scores.written.seconds,
        output,
        scores.counts.malformed,
        options.dry_run,
        tuple(f"{options.moses_ini_out}: {notice}" for notice in scores.notices),
        scores.counts.too_long,
        options.max_tokens,
        scores.counts.unknown_words,
        scores.counts.ngrams,
        before=scores.written.before,
    )


def _score_in_order(
    options: ScoringOptions,
    models: Sequence[ModelOrPath],
    input: FilePath,
    output: FilePath,
    columns: Sequence[Column],
    scored_ini: Callable[[RecordReader[Record]], tuple[bytes, list[str]]],
    progress: Callable[[InputLines], Progress],
) -> WrittenScores:
    """Scores the file from its first line to its last; all outputs appear when they are complete."""
    known = pair_format(options.format)
    outputs = options.outputs(output)
    ini_outputs = [options.moses_ini_out] if options.moses_ini_out else []
    with (
        known.open_reader(input, options.source, options.encoding, options.on_error) as reader,
        open_outputs([*outputs, *ini_outputs], keep=not options.dry_run) as files,
    ):
        read = scored_windows(reader, options, columns)
        first = next(read)
        # Reads the other inputs first, so that their errors appear before hours of scoring.
        ini, notices = scored_ini(reader)
        for file in files[len(outputs) :]:
            file.write(ini)
        scorers = open_scorers(options, models)
        windows, score_files = itertools.chain([first], read), files[: len(outputs)]
        written, counts = write_scores(reader, windows, score_files, scorers, options, progress)
    return WrittenScores(written, counts, notices)
