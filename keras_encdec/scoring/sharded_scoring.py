"""Scores a file in shards, each exactly once."""

import contextlib
import dataclasses
import functools
import hashlib
import io
import os
import threading
from collections.abc import Callable, Sequence

from keras_encdec.backend.startup import KerasWork, software
from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats import Column, FilePath, InputLines, PairFormat, Record, open_output, pair_format
from keras_encdec.formats.plain_text import Sentences, read_sentences
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.progress_state import count_errors
from keras_encdec.runtime.settings_files import Json
from keras_encdec.runtime.sharded_job import ShardedJob, run_in_shards
from keras_encdec.runtime.shards import Shard, ShardResult
from keras_encdec.scoring.pair_scorer import ScoreCounts
from keras_encdec.scoring.record_scorer import WINDOW_LINES, WINDOWS_AT_ONCE, scored_windows, write_scores
from keras_encdec.scoring.scoring_options import ScoringOptions, score_columns
from keras_encdec.scoring.text_scorer import ModelOrPath, TextScorer, prepare_scorers
from keras_encdec.trained_model import check_direction

# Options about other files; `_settings` compares the contents of those that change the scores.
FILE_OPTIONS = {"source", "lexical_shortlist", "moses_ini", "moses_ini_out", "moses_feature"}
# A rough number of bytes that a column adds to a line, to estimate the size of the output.
COLUMN_BYTES = 11


class ShardScorer:
    """Scores shards in a worker.

    Args:
        options: ScoringOptions.
        models: list of the path of the model and, if there is one, that of the reverse model. Unless the worker is a
            separate process, each may be any `ModelOrPath`.
        dtypes: list of the dtype of each model.
        sentences: Sentences, the sources of an n-best list; `None` for other formats.
        own_process: bool. Whether the worker is a separate process.

    Raises:
        InputError: if a model cannot be used.
    """

    def __init__(
        self,
        options: ScoringOptions,
        models: Sequence[ModelOrPath],
        dtypes: Sequence[str | None],
        sentences: Sentences | None,
        own_process: bool,
    ) -> None:
        self._options, self._sentences = options, sentences
        self._scorers = [TextScorer.open(*each) for each in zip(models, dtypes, strict=True)]
        prepare_scorers(options, self._scorers)
        # In this process, two threads score a shard each. A separate process scores several windows of its shard at the
        # same time.
        self._side_by_side = WINDOWS_AT_ONCE if own_process else 1
        # A model of limited context counts the n-grams of all threads together, so one shard is scored at a time.
        counts = any(scorer.ngram_counts is not None for scorer in self._scorers)
        self._turn = threading.Lock() if counts else contextlib.nullcontext()

    def __call__(self, shard: Shard) -> ShardResult:
        """Scores a shard.

        Raises:
            InputError: at a malformed line, unless such lines are kept.
        """
        with self._turn:
            return self._score(shard)

    def _score(self, shard: Shard) -> ShardResult:
        options = self._options
        if shard.number:
            # The share of unknown words refers to all words so far: `score_in_shards` checks it.
            options = options.replace(max_unknown=None)
        outputs = [io.BytesIO() for _ in range(2 if options.alignments else 1)]
        borrowed = [TextScorer.open(scorer) for scorer in self._scorers]  # they stay open when the shard is done
        with open_part(shard, options, self._sentences) as reader:
            columns = score_columns(pair_format(options.format), options, len(self._scorers))
            read = scored_windows(reader, options, columns)
            _, counts = write_scores(reader, read, outputs, borrowed, options, side_by_side=self._side_by_side)
        return ShardResult(tuple(output.getvalue() for output in outputs), dataclasses.asdict(counts))


def open_part(shard: Shard, options: ScoringOptions, sentences: Sentences | None) -> RecordReader[Record]:
    """Opens a reader of the lines of a shard, whose malformed lines `_Steps.check` counts."""
    source: FilePath | None = sentences
    if len(shard.parts) > 1:
        source = shard.parts[0]
    reader = pair_format(options.format).open_reader(shard.parts[-1], source, options.encoding, options.on_error)
    reader.counts_errors = False
    if shard.context:
        reader.num_scores, reader.num_scores_line = shard.context
    return reader


@dataclasses.dataclass(frozen=True)
class WrittenScores:
    """The results of scoring, apart from the files.

    Attributes:
        written: Progress, which has counted the written lines.
        counts: ScoreCounts.
        notices: list of str, about the new moses.ini.
    """

    written: Progress
    counts: ScoreCounts
    notices: Sequence[str]


def score_in_shards(
    options: ScoringOptions,
    models: Sequence[ModelOrPath],
    input: FilePath,
    output: FilePath,
    columns: Sequence[Column],
    scored_ini: Callable[[RecordReader[Record]], tuple[bytes, list[str]]],
    progress: Callable[[InputLines], Progress],
    show: Callable[[str], object] | None,
) -> WrittenScores:
    """Writes a copy of a file of pairs with the model's scores on each line, as `score_file` does, but in shards.

    Args:
        options: ScoringOptions.
        models: list of the model and, if there is one, the reverse model, see `score_file`.
        input: the file.
        output: the file to write.
        columns: list of Column, those of `score_columns`.
        scored_ini: function that takes a reader which has read the first lines, and returns the new moses.ini and
            notices.
        progress: see `score_file`.
        show: see `score_file`.

    Raises:
        ConfigurationError: a ValueError, for a TextScorer with a lexical shortlist of its own.
        InputError: see `score_file`; also if a folder of shards of another job is in the way, or its input has changed.
    """
    known, directories = pair_format(options.format), _directories(models)
    in_step, sentences = _sources(known, input, options)
    own_process = options.uses_other_processes
    dtypes = [model.dtype if isinstance(model, TextScorer) else options.dtype for model in models]
    if any(isinstance(model, TextScorer) and model.lexical_shortlist is not None for model in models):
        found = "found a TextScorer with a lexical shortlist and work in shards"
        raise ConfigurationError(f"{found}, expected the table as {{lexical_shortlist}}")
    if own_process:
        models = [directory.path_elsewhere(model) for model, directory in zip(models, directories, strict=True)]
    work = KerasWork(functools.partial(ShardScorer, options, models, dtypes, sentences, own_process), own_process)
    job = ShardedJob(
        "scoring",
        in_step,
        options.outputs(output),
        _settings(options, directories, dtypes, sentences),
        WINDOW_LINES,
        options.shard_lines,
        known.group,
        COLUMN_BYTES * len(columns),
    )
    steps = _Steps(options, sentences, columns, scored_ini)
    run = run_in_shards(
        job, options.open_engine(), work, steps.prepare, steps.others, check=steps.check, progress=progress, show=show
    )
    assert steps.counts is not None  # empty files are refused, so that there is a shard
    return WrittenScores(run.written, steps.counts, steps.notices)


class _Steps:
    """The steps before the shards are scored, after each of them, and when all are done; see `run_in_shards`.

    Attributes:
        notices: list of str, about the new moses.ini.
        counts: ScoreCounts of the shards so far; `None` before the first.
    """

    def __init__(
        self,
        options: ScoringOptions,
        sentences: Sentences | None,
        columns: Sequence[Column],
        scored_ini: Callable[[RecordReader[Record]], tuple[bytes, list[str]]],
    ) -> None:
        self._options, self._sentences, self._columns, self._scored_ini = options, sentences, columns, scored_ini
        self._ini = b""
        self.notices: list[str] = []
        self.counts: ScoreCounts | None = None

    def prepare(self, first: Shard) -> tuple[int, int]:
        """Reads the first shard; returns the number of scores of a phrase table, and the number of their line."""
        if self._options.moses_ini_out:
            with open_output(self._options.moses_ini_out, keep=False):  # fails now, rather than after hours of scoring
                pass
        with open_part(first, self._options, self._sentences) as reader:
            # Finds the number of scores, and malformed lines, before any work starts.
            for _ in scored_windows(reader, self._options, self._columns):
                pass
            self._ini, self.notices = self._scored_ini(reader)
        return reader.num_scores, reader.num_scores_line

    def check(self, counts: dict[str, Json]) -> None:
        """Adds the counts of a shard, and checks the share of unknown words."""
        shard_counts = ScoreCounts.from_dict(counts)
        count_errors(shard_counts.malformed, shard_counts.last_problem)
        self.counts = self.counts + shard_counts if self.counts else shard_counts
        for words in self.counts.unknown_words:
            self._options.check_unknown(words.side, words.words, words.unknown, f"the {words.model}")

    def others(self) -> dict[FilePath, bytes]:
        """Returns the new moses.ini, if it is written, by its name."""
        return {self._options.moses_ini_out: self._ini} if self._options.moses_ini_out else {}


def _directories(models: Sequence[ModelOrPath]) -> list[ModelDirectory]:
    directories = [ModelDirectory.open(model, weights=False) for model in models]
    for directory, reverse, flag in zip(
        directories, (False, True), ("--model_dir", "--reverse_model_dir"), strict=False
    ):
        check_direction(directory, reverse, flag)
    return directories


def _sources(
    known: PairFormat, input: FilePath, options: ScoringOptions
) -> tuple[Sequence[FilePath], Sentences | None]:
    """Returns the files that are read line by line, and the sentences of an n-best list."""
    if not known.has_source_file:
        return [input], None
    source = known.required_source(options.source)
    if known.source_in_step:
        return [source, input], None
    return [input], Sentences(os.fspath(source), read_sentences(source, options.encoding))


def _settings(
    options: ScoringOptions,
    directories: Sequence[ModelDirectory],
    dtypes: Sequence[str | None],
    sentences: Sentences | None,
) -> dict[str, object]:
    """Describes everything that determines the scores, apart from the lines."""
    values = {name: value for name, value in options.output_settings.items() if name not in FILE_OPTIONS}
    values["dtype"] = dtypes
    text = "\n".join(sentences.texts) if sentences else ""
    return {
        "software": software(),
        "source sentences": hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest() if sentences else None,
        "model": directories[0].checksums(),
        "reverse model": directories[1].checksums() if len(directories) > 1 else None,
        "lexical shortlist": options.lexical_shortlist and file_checksum(options.lexical_shortlist),
        "settings": values,
    }
