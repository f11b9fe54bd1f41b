"""Scores a file in shards, of which each is scored exactly once."""

import contextlib
import dataclasses
import functools
import hashlib
import io
import itertools
import operator
import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_encdec import __version__
from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats import FilePath, InputLines, PairFormat, Record, open_output, pair_format
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.formats.sentences import Sentences, read_sentences
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.engines import Engine, LocalProcesses, ThisProcess, do_missing
from keras_encdec.runtime.files import STANDARD_STREAM
from keras_encdec.runtime.progress import Progress
from keras_encdec.runtime.shards import Shard, ShardFolder, ShardResult, cut
from keras_encdec.runtime.unfinished import directory_lock
from keras_encdec.scoring.file_scorer import WINDOW, FileScorer, ScoreCounts, scored_windows
from keras_encdec.scoring.record_scorer import score_columns
from keras_encdec.scoring.scoring_options import ScoringOptions
from keras_encdec.scoring.shard_work import ScoringWork
from keras_encdec.scoring.text_scorer import ModelOrPath, TextScorer

# Windows in a shard of a single process: the models work on one window while others are read and written, but not
# across shards.
SHARD_WINDOWS = 4
# Where and how the work is done, which does not change the scores.
NO_SETTINGS = ("number_of_processes", "shard_lines", "source", "moses_ini", "moses_ini_out", "moses_feature")
# Bytes that a column adds to a line, and the share of its size to which gzip compresses a file: rough, for an estimate.
COLUMN_BYTES, GZIP_SHARE = 11, 0.3


class ShardScorer:
    """Scores shards in a worker.

    Args:
        work: ScoringWork.

    Raises:
        InputError: when a model cannot be used.
    """

    def __init__(self, work: ScoringWork) -> None:
        self._work = work
        self._scorers = [TextScorer.open(model, work.options.dtype) for model in work.models]

    def __call__(self, shard: Shard) -> ShardResult:
        """Scores a shard.

        Raises:
            InputError: at a malformed line, unless such lines are kept.
        """
        options = self._work.options
        outputs = [io.BytesIO() for _ in range(2 if options.alignments else 1)]
        with open_part(shard, options, self._work.sentences) as reader:
            columns = score_columns(pair_format(options.format), options, len(self._scorers))
            scorer = FileScorer(options, *self._scorers)
            _, counts = scorer.write(reader, scored_windows(reader, options, columns), outputs)
        return ShardResult(tuple(output.getvalue() for output in outputs), dataclasses.asdict(counts))


def open_part(shard: Shard, options: ScoringOptions, sentences: Sentences | None) -> RecordReader[Record]:
    """Opens a reader of the lines of a shard."""
    source: FilePath | None = sentences
    if len(shard.parts) > 1:
        source = shard.parts[0]
    reader = pair_format(options.format).open_reader(shard.parts[-1], source, options.encoding, options.on_error)
    if shard.context:
        reader.num_scores, reader.num_scores_line = shard.context
    return reader


@dataclasses.dataclass(frozen=True)
class WrittenScores:
    """What scoring gives, besides the files.

    Attributes:
        written: Progress, of the written lines.
        counts: ScoreCounts.
        notices: list of str, about the new moses.ini.
        before: int. Lines in shards that were done before. Defaults to `0`.
    """

    written: Progress
    counts: ScoreCounts
    notices: Sequence[str]
    before: int = 0


def score_in_shards(
    options: ScoringOptions,
    models: Sequence[ModelOrPath],
    input: FilePath,
    output: FilePath,
    scored_ini: Callable[[RecordReader[Record]], tuple[bytes, list[str]]],
    progress: Callable[[InputLines], Progress],
    show: Callable[[str], object] | None,
) -> WrittenScores:
    """Writes a file of pairs again, with the model's scores on each line, as `score_file` does, but in shards.

    Args:
        options: ScoringOptions.
        models: list of the model and, if there is one, the reverse model, see `score_file`.
        input: the file.
        output: the file to write.
        scored_ini: callable of a reader that has read the first lines, which makes the new moses.ini and notices.
        progress: see `score_file`.
        show: see `score_file`.

    Returns:
        WrittenScores.

    Raises:
        InputError: see `score_file`; also if a folder of shards of another job is in the way, or its input has changed.
    """
    files = [output, *([options.alignments] if options.alignments else [])]
    _check_outputs([*files, *([options.moses_ini_out] if options.moses_ini_out else [])])
    directories = _directories(models)
    known, processes = pair_format(options.format), options.number_of_processes
    in_step, sentences = _sources(known, input, options)
    engine: Engine = LocalProcesses(processes) if processes else ThisProcess()
    work = ScoringWork(options, [d.path for d in directories] if processes else models, sentences, bool(processes))
    shard_windows = -(-options.shard_lines // WINDOW) if options.shard_lines else 1 if processes else SHARD_WINDOWS
    with contextlib.ExitStack() as stack:
        inputs = [stack.enter_context(InputLines(path)) for path in in_step]
        stack.enter_context(directory_lock(f"{os.fspath(output)}.shards", "scoring", "--output"))
        manifest = _manifest(options, directories, inputs, sentences, shard_windows * WINDOW)
        folder = stack.enter_context(ShardFolder(output, manifest, [f"{path}".endswith(".gz") for path in files]))
        shards = cut(inputs, WINDOW, shard_windows, known.group)
        first = next(shards)
        with open_part(first, options, sentences) as reader:
            columns = score_columns(known, options, len(models))
            for _ in scored_windows(reader, options, columns):  # finds the number of scores, and errors, at once
                pass
            ini, notices = scored_ini(reader)
        context = reader.num_scores, reader.num_scores_line
        if show:
            show(_space(folder, first, inputs, len(columns), files))
        written = stack.enter_context(progress(inputs[0]))
        with_context = (dataclasses.replace(shard, context=context) for shard in itertools.chain([first], shards))
        number, before = do_missing(folder, engine, work, with_context, written)
        with contextlib.ExitStack() as outputs:
            folder.join([outputs.enter_context(open_output(path)) for path in files], number)
            if options.moses_ini_out:
                outputs.enter_context(open_output(options.moses_ini_out)).write(ini)
        counts = [ScoreCounts.from_dict(folder.done[i]["counts"]) for i in range(number)]
        folder.remove()
    return WrittenScores(written, functools.reduce(operator.add, counts), notices, before)


def _check_outputs(paths: Sequence[FilePath]) -> None:
    """Finds outputs that cannot be written, before hours of scoring."""
    if STANDARD_STREAM in paths:
        raise ConfigurationError("found the output - with shards, expected a file, beside which the shards are kept")
    for path in paths:
        with open_output(path, keep=False):
            pass


def _directories(models: Sequence[ModelOrPath]) -> list[ModelDirectory]:
    directories = [ModelDirectory.open(model, weights=False) for model in models]
    for directory, reverse, flag in zip(
        directories, (False, True), ("--model_dir", "--reverse_model_dir"), strict=False
    ):
        directory.check_direction(reverse, flag)
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


def _manifest(
    options: ScoringOptions,
    directories: Sequence[ModelDirectory],
    inputs: Sequence[InputLines],
    sentences: Sentences | None,
    shard_lines: int,
) -> dict[str, Any]:
    """Describes what decides the scores. The journal has the checksums of the lines themselves."""
    settings = {name: value for name, value in options.to_dict().items() if name not in NO_SETTINGS}
    text = "\n".join(sentences.texts) if sentences else ""
    return {
        "software": {
            "keras_encdec": __version__,
            "keras": keras.__version__,
            "backend": keras.backend.backend(),
        },
        "input size": [lines.bytes_total for lines in inputs],
        "source sentences": hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest() if sentences else None,
        "model": directories[0].checksums(),
        "reverse model": directories[1].checksums() if len(directories) > 1 else None,
        "settings": settings,
        "shard_lines": shard_lines,
    }


def _space(
    folder: ShardFolder, first: Shard, inputs: Sequence[InputLines], columns: int, files: Sequence[FilePath]
) -> str:
    """Says how much disk space the shards and the output need, from the first shard."""
    free = shutil.disk_usage(folder.path).free
    size = sum(len(part.data) for part in first.parts) + columns * COLUMN_BYTES * first.lines
    read, total = sum(lines.bytes_read for lines in inputs), sum(lines.bytes_total for lines in inputs)
    if not total:
        return f"{folder.path} keeps the shards; {free / 1e9:,.1f} GB are free."
    share = GZIP_SHARE if f"{files[0]}".endswith(".gz") else 1.0
    needed = 2 * size * share * total / max(read, 1)
    return (
        f"The shards in {folder.path} and the output will need about {needed / 1e9:,.2f} GB of disk space together; "
        f"{free / 1e9:,.1f} GB are free."
    )
