"""Scoring as a function: a file written again with a model's scores."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable

from keras_encdec.configuration import ConfigurationError
from keras_encdec.file_summary import FileSummary
from keras_encdec.formats import FilePath, InputLines, PairFormat, format_names, open_output, pair_format
from keras_encdec.formats.alignment_lines import alignment_line, check_carries_attention
from keras_encdec.formats.files import STANDARD_STREAM, check_distinct_files
from keras_encdec.formats.nbest_line import check_feature_name
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.progress import Progress
from keras_encdec.scoring.ngram_counts import NgramCounts
from keras_encdec.scoring.record_scorer import FEATURE_NAME, RecordScorer, score_columns
from keras_encdec.scoring.scored_file import windows, write_scored_lines
from keras_encdec.scoring.scored_moses_ini import scored_moses_ini
from keras_encdec.scoring.scorer import DTYPES
from keras_encdec.scoring.text_scorer import DryTextScorer, TextScorer
from keras_encdec.scoring.unknown_words import UnknownWords
from keras_encdec.scoring.word_counting_scorer import WordCountingScorer

# Records scored together: among them, equal pairs are scored once and equal sources encoded once.
WINDOW = 1 << 15
# Windows in work at a time: while the model scores one, another is read and a third written.
WINDOWS = 2
# A line of more tokens is no sentence: it took the whole command's time, and a million tokens all of the memory.
MAX_TOKENS = 10_000


@dataclasses.dataclass(frozen=True)
class ScoreSummary(FileSummary):
    """What `score_file` did.

    Attributes:
        lines: int. Lines written.
        seconds: float.
        output: the file.
        malformed: int. Lines among them that were written with a neutral score.
        dry_run: bool. Whether nothing was kept of what was written.
        notices: tuple of str, what the user is to know of the new moses.ini.
        too_long: int. Lines among them that had more than `max_tokens` tokens, written with a neutral score.
        max_tokens: int, as it was given.
        unknown_words: tuple of UnknownWords, of each side and model.
        ngrams: tuple of NgramCounts, of each model of limited context, such as `FeedForwardLanguageModel`.
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
        """What the user is to know of the lines: sentences."""
        passed = f"{'would be' if self.dry_run else 'were'} written with a neutral score."
        said = ["; ".join(map(str, self.unknown_words)) + "."] if self.unknown_words else []
        said += [f"{counts}." for counts in self.ngrams]
        if self.malformed:
            said.append(f"{self.malformed:,} malformed lines {passed}")
        if self.too_long:
            said.append(f"{self.too_long:,} lines of more than {self.max_tokens:,} tokens (max_tokens) {passed}")
        said += [
            f"warning: most of the {words.side} words are unknown to the {words.model}, whose scores mean little then; "
            "check the language of the file, which side is which, and how its text is tokenized."
            for words in self.unknown_words if words.is_high
        ]  # fmt: skip
        return said

    @property
    def _result(self):
        return "a dry run, nothing was written" if self.dry_run else super()._result


def score_file(
    model_dir: FilePath | ModelDirectory | TextScorer,
    input: FilePath,
    output: FilePath,
    format: str = "phrase_table",
    *,
    source: FilePath | None = None,
    reverse_model_dir: FilePath | ModelDirectory | TextScorer | None = None,
    unknown_count: bool = False,
    length: bool = False,
    token_scores: bool = False,
    feature_name: str | None = None,
    dtype: str | None = "float32",
    encoding: str | None = None,
    on_error: str = "stop",
    max_tokens: int | None = MAX_TOKENS,
    moses_ini: FilePath | None = None,
    moses_ini_out: FilePath | None = None,
    moses_feature: str | None = None,
    alignments: FilePath | None = None,
    alignment_format: str | None = None,
    dry_run: bool = False,
    progress: Callable[[InputLines], Progress] = Progress,
) -> ScoreSummary:
    """Writes a file of pairs again, with the model's scores on each line.

    A phrase table gets probabilities, TSV and parallel text (which is written as TSV) ln p in new columns, a Moses
    n-best list ln p as new features. As many lines come out as went in, in their order; the output appears when it
    is complete.

    Args:
        model_dir: directory of the model that gives p(target | source); or a loaded ModelDirectory; or a
            TextScorer, which stays open, and keeps from file to file what was compiled.
        input: the file, plain or gzipped; of parallel text that of the targets. "-" is the standard input.
        output: file to write, gzipped if its name ends in .gz. "-" is the standard output.
        format: str. Name of a registered format whose lines can be written again. Defaults to "phrase_table".
        source: the sources, for "parallel" and "nbest".
        reverse_model_dir: directory of a model trained with the sides swapped, for p(source | target) as a second
            score; a ModelDirectory or a TextScorer of it. Optional.
        unknown_count: bool. Whether to add the number of target words outside the shortlist: e to its power in a
            phrase table, itself elsewhere (feature Unknown0 of an n-best list). Defaults to `False`.
        length: bool. Whether to add the number of target tokens, the end of sequence among them, in the same way
            (feature Length0). Defaults to `False`.
        token_scores: bool. Whether to add a column with ln p of each target token, the end of sequence last.
            Defaults to `False`.
        feature_name: str. Of an n-best list: name of the new feature; that of the second model counts up.
            Defaults to `None`: "RNN0".
        dtype: str. What the model computes in, "float32" or "bfloat16"; a TextScorer has its own. Defaults to
            "float32".
        encoding: str. Encoding of the input and of `source`. Defaults to `None`: UTF-8, and other bytes are an
            error.
        on_error: str. A malformed line raises ("stop"), or is written with a neutral score and counted ("keep").
            Defaults to "stop".
        max_tokens: int. Tokens of either side, the end of sequence not counted. A longer pair passes with a neutral
            score and is counted, whatever `on_error` says. Defaults to 10,000; `None` is any number.
        moses_ini: moses.ini of the input table. Optional.
        moses_ini_out: moses.ini to write for the output table. Optional.
        moses_feature: str. Name of the table's feature in a moses.ini that has several tables. Optional.
        alignments: file to write what the model's target words attend to in each pair, a line each; of a model with
            attention. Optional.
        alignment_format: str. "links", such as "0-0 2-1"; or "weights", a JSON object a line. Defaults to `None`:
            "links".
        dry_run: bool. Whether to do everything but run the model, and keep no output. Defaults to `False`.
        progress: callable of the InputLines that are read, which gives a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.

    Returns:
        ScoreSummary.

    Raises:
        ConfigurationError: a ValueError, for arguments that contradict one another.
        InputError: when a model, an input or the output cannot be used.

    Example:

        summary = score_file("model", "phrase-table.gz", "scored.gz", progress=ReadingProgress)
        print(summary)
    """
    known = pair_format(format)
    _check_values(dtype, on_error, max_tokens)
    _check_arguments(known, source, feature_name, moses_ini, moses_ini_out, moses_feature, output)
    link_line = alignment_line(alignments, alignment_format, output)
    check_distinct_files(input, source, output, moses_ini, moses_ini_out, alignments)
    scores = {"unknown_count": unknown_count, "length": length, "token_scores": token_scores}
    scores["feature_name"] = FEATURE_NAME if feature_name is None else feature_name
    columns = score_columns(known, 1 + (reverse_model_dir is not None), **scores)
    notices = []
    with known.open_reader(input, source, encoding, on_error) as reader, contextlib.ExitStack() as outputs:
        output_file = outputs.enter_context(open_output(output, keep=not dry_run))
        written_files = [output_file]
        if alignments:
            written_files.append(outputs.enter_context(open_output(alignments, keep=not dry_run)))
        ini_file = outputs.enter_context(open_output(moses_ini_out, keep=not dry_run)) if moses_ini else None
        read = windows(known.check_columns(reader, columns), WINDOW)
        first = next(read)
        # Whatever can be wrong with the other inputs is found before hours of scoring.
        if ini_file:
            ini, notices = scored_moses_ini(moses_ini, output, columns, moses_feature, reader.num_scores)
            ini_file.write(ini)
        scorers = [_scorer(model_dir, "--model_dir", False, dtype, dry_run)]
        if reverse_model_dir is not None:
            scorers.append(_scorer(reverse_model_dir, "--reverse_model_dir", True, dtype, dry_run))
        check_carries_attention(alignments, scorers[0].carries_attention)
        record_scorer = RecordScorer(known, scorers, **scores, max_tokens=max_tokens, alignment_line=link_line)
        written = write_scored_lines(
            record_scorer, itertools.chain([first], read), reader.lines, written_files, WINDOWS, progress
        )
    ngrams = tuple(counts for scorer in scorers if (counts := scorer.ngram_counts()))
    unknown_words = tuple(words for scorer in scorers for words in scorer.unknown_words())
    return ScoreSummary(
        written.count, written.seconds, output, reader.malformed, dry_run, tuple(notices), record_scorer.too_long,
        max_tokens, unknown_words, ngrams,
    )  # fmt: skip


def _scorer(model, flag, reverse, dtype, dry_run):
    lent = isinstance(model, TextScorer)
    directory = model.directory if lent else model
    if not isinstance(directory, ModelDirectory):
        directory = ModelDirectory.load(directory, weights=not dry_run)
    directory.check_direction(reverse, flag)
    if dry_run:
        return WordCountingScorer(DryTextScorer(directory), lent=False)
    return WordCountingScorer(model if lent else TextScorer(directory, dtype), lent)


def _check_values(dtype, on_error, max_tokens) -> None:
    for name, value, allowed in (("dtype", dtype, (*DTYPES, None)), ("on_error", on_error, ("stop", "keep"))):
        if value not in allowed:
            expected = " or ".join(repr(one) for one in allowed if one)
            raise ConfigurationError(f"found {{{name}}}=%r, expected %s", value, expected)
    if max_tokens is not None and max_tokens < 1:
        raise ConfigurationError("found {max_tokens}=%r, expected 1 or more", max_tokens)


def _check_arguments(
    known: PairFormat, source, feature_name, moses_ini, moses_ini_out, moses_feature, output
) -> None:
    if (moses_ini is None) != (moses_ini_out is None):
        raise ConfigurationError("found one of {moses_ini} and {moses_ini_out}, expected both")
    if moses_ini is not None and not known.in_moses_ini:
        raise ConfigurationError("found {moses_ini} with {format}=%s, expected it with a phrase table", known.name)
    if moses_ini is not None and output == STANDARD_STREAM:
        raise ConfigurationError("found {moses_ini} with {output}=-, expected a file, which it is to name")
    if moses_feature is not None and moses_ini is None:
        raise ConfigurationError("found {moses_feature} without {moses_ini}, expected both")
    if known.has_source_file and not source:
        raise ConfigurationError(
            "found {format}=%s without {source}, expected the sentences that were translated", known.name
        )
    for argument, value, attribute in (
        ("source", source, "has_source_file"),
        ("feature_name", feature_name, "has_column_names"),
    ):
        if value is not None and not getattr(known, attribute):
            able = " or ".join(format_names(**{attribute: True}))
            raise ConfigurationError(
                f"found {{{argument}}} with {{format}}=%s, expected it with {{format}}=%s", known.name, able
            )
    if feature_name is not None:
        check_feature_name(feature_name)
