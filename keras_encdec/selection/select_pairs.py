"""Selects the best sentence pairs of a corpus, and writes their lines unchanged."""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from keras_encdec.backend.startup import KerasWork, software
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, InputLines, Record
from keras_encdec.formats.plain_text import append_columns
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import absolute, check_distinct_files, file_checksum, is_file
from keras_encdec.runtime.open_output import open_outputs
from keras_encdec.runtime.progress import Progress, ShardedFileSummary, counted
from keras_encdec.runtime.shard_folder import ShardFolder
from keras_encdec.runtime.sharded_job import ShardedJob, run_in_shards
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.text_scorer import ModelOrPath
from keras_encdec.selection.corpus_entropies import (
    WINDOW,
    CorpusFiles,
    PairFilter,
    ShardEntropies,
    Window,
    score_rows,
    window_entropies,
)
from keras_encdec.selection.cross_entropies import open_entropies
from keras_encdec.selection.selection_options import METHODS, SelectionOptions, check_corpus

# Number of windows that are scored at the same time.
WINDOWS = 2


@dataclasses.dataclass(frozen=True)
class SelectionSummary(ShardedFileSummary):
    """Summary of `select_pairs`.

    Attributes:
        lines: int. Pairs selected.
        seconds, output: see `FileSummary`.
        pairs: int. Pairs read.
        duplicates: int. Pairs left out because an earlier pair has the same text.
        malformed: int. Pairs left out because their lines are malformed.
        without_score: int. Pairs left out because a side is empty, has more than `max_tokens` tokens or, with the
            method "dual", more than the share `max_unknown_in_pair` of unknown words.
        lowest: float. Lowest score of a selected pair; `None` if no pair is selected.
        before: int. Pairs in shards that an interrupted earlier call had scored.
    """

    pairs: int = 0
    duplicates: int = 0
    malformed: int = 0
    without_score: int = 0
    lowest: float | None = None

    @property
    def rate(self) -> float:
        """Pairs per second, without those that were scored before."""
        return (self.pairs - self.before) / max(self.seconds, 1e-9)

    @property
    def notices(self) -> list[str]:
        """Sentences for the user about the pairs."""
        return [f"An interrupted command had already scored {counted(self.before, 'pairs')}."] if self.before else []

    def __str__(self) -> str:
        summary = f"{self.lines:,} of {self.pairs:,} pairs in {self.seconds:,.1f} s: {self._result}"
        if self.lowest is not None:
            summary += f"; the lowest score is {self.lowest:.6g}"
        counts = {
            "duplicate": self.duplicates,
            "malformed": self.malformed,
            "empty, too long or with too many unknown words": self.without_score,
        }
        left_out = [f"{count:,} {reason}" for reason, count in counts.items() if count]
        return summary + (f"; left out: {', '.join(left_out)}" if left_out else "")


def select_pairs(
    input: FilePath,
    output: FilePath,
    models: Mapping[str, ModelOrPath],
    options: SelectionOptions | None = None,
    *,
    format: str = "parallel",
    source: FilePath | None = None,
    source_output: FilePath | None = None,
    scores: FilePath | None = None,
    progress: Callable[[InputLines], Progress] = Progress,
    show: Callable[[str], object] | None = None,
    **values: object,
) -> SelectionSummary:
    """Writes the sentence pairs of a corpus with the highest scores, unchanged and in their order.

    The corpus is read twice: to score, and to write. If two pairs have the same score, the earlier one is preferred. A
    pair with an empty side, with more than `max_tokens` words on a side, or with too many unknown words
    (`max_unknown_in_pair`) has no score and is never selected. A pair takes about 30 bytes of memory, and about 100
    more with `deduplicate`.

    With `number_of_processes`, `shard_lines` or `engine="ray"`, the cross-entropies are computed in shards, see
    `keras_encdec.scoring.score_file`; this process then selects the pairs. A call that continues an interrupted job may
    have a different `top`, `share` or `threshold`.

    Args:
        input: file of pairs, or of the targets of parallel text, plain or gzipped.
        output: file to write the selected lines of `input` to, gzipped if its name ends in .gz.
        models: dict. With the method "dual" (`dual_conditional_cross_entropy`): "model_dir" and "reverse_model_dir",
            directories of a model of p(target | source) and of one of p(source | target). With "moore_lewis"
            (`cross_entropy_difference`): "in_domain_source" and "general_source", or "in_domain_target" and
            "general_target"; with "bilingual" (`bilingual_difference`) all four: each the directory of a language
            model, or an n-gram model, see `NgramEntropies`. A ModelDirectory or a TextScorer may be given in place of
            its directory.
        options: SelectionOptions. Defaults to `None`: the defaults of the command.
        format: str. "parallel" or "tsv". Defaults to "parallel".
        source: file of the sources, only with parallel text. Defaults to `None`.
        source_output: file to write the selected sources to, only with parallel text. Defaults to `None`.
        scores: file to write a line to for each pair read: source, target, score, and the cross-entropies (nats per
            token) that it is computed from, in the order of `models` above, separated by tabs. A pair without a score
            gets -inf. Optional.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        show: function that is called with sentences for the user before the processing of shards starts. Defaults to
            `None`.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for arguments that contradict one another.
        ImportError: if kenlm is needed and is not installed.
        InputError: if a model or the corpus cannot be used, or another number of lines is found when it is read again.

    Example:

        models = {"model_dir": "en-fr", "reverse_model_dir": "fr-en"}
        select_pairs("train.fr", "best.fr", models, source="train.en", source_output="best.en", share=0.5)
    """
    options = SelectionOptions.combined(options, values)
    check_corpus(format, input, source, output=output, source_output=source_output, scores=scores)
    check_distinct_files(input, source, output, source_output, scores)
    for model in models.values():
        if isinstance(model, str | os.PathLike):
            check_distinct_files(model, output, source_output, scores)
    names = options.models_in_order(models)
    start = time.monotonic()
    files = CorpusFiles(format, input, source, output, source_output, scores)
    if options.in_shards:
        summary = _select_in_shards(files, names, models, options, progress, show)
    else:
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(contextlib.closing(each)) for each in open_entropies(names, models, options)]
            executor = stack.enter_context(threads(WINDOWS))

            def score(window: Window) -> tuple[Window, np.ndarray]:
                return window, score_rows(METHODS[options.method], window, window_entropies(opened, window))

            summary = _write(files, options, lambda windows: in_order(executor, score, windows, WINDOWS), progress)
    return dataclasses.replace(summary, seconds=time.monotonic() - start)


def _write(
    files: CorpusFiles,
    options: SelectionOptions,
    scored: Callable[[Iterator[Window]], Iterator[tuple[Window, np.ndarray]]],
    progress: Callable[[InputLines], Progress],
) -> SelectionSummary:
    """Reads the pairs, writes their scores, and selects; `scored` yields Windows with scores, see `score_rows`."""
    paths = files.output, files.source_output, files.scores
    with open_outputs([path for path in paths if path is not None]) as opened:
        outputs = iter(opened)
        file, source_file, score_file = [None if path is None else next(outputs) for path in paths]
        candidates, collected = PairFilter(options.max_tokens, options.deduplicate), array("d")
        with files.open_reader(options) as reader, progress(reader.lines) as done:
            for window, rows in scored(candidates.windows(reader)):
                collected.extend(rows[0])
                if score_file:
                    score_file.writelines(map(_score_line, window.records, rows.T))
                done.add(len(window.records))
        pair_scores = np.frombuffer(collected)
        without_score = int((pair_scores == -np.inf).sum()) - candidates.duplicates - reader.malformed
        selected = _selected(pair_scores, len(pair_scores) - candidates.duplicates - reader.malformed, options)
        for path, written in ((files.input, file), (files.source, source_file)):
            if path is not None and written:
                _write_selected(path, written, selected)
    return SelectionSummary(
        int(selected.sum()),
        done.seconds,
        files.output,
        len(pair_scores),
        candidates.duplicates,
        reader.malformed,
        without_score,
        float(pair_scores[selected].min()) if selected.any() else None,
    )


def _select_in_shards(
    files: CorpusFiles,
    names: Sequence[str],
    models: Mapping[str, ModelOrPath],
    options: SelectionOptions,
    progress: Callable[[InputLines], Progress],
    show: Callable[[str], object] | None,
) -> SelectionSummary:
    given, checksums = _models_elsewhere(names, models, options.uses_other_processes)
    # They determine cross-entropies.
    entropy_options = ("method", "end_weight", "max_tokens", "max_unknown_in_pair", "encoding")
    settings = {
        "software": software(),
        "models": {name: hashlib.sha256(f"{checksum}".encode()).hexdigest() for name, checksum in checksums.items()},
        "settings": {name: getattr(options, name) for name in entropy_options},
    }
    outputs = [path for path in (files.output, files.source_output, files.scores) if path is not None]
    row_bytes = np.dtype(np.float64).itemsize * len(names)
    job = ShardedJob("selection", files.inputs, outputs, settings, WINDOW, options.shard_lines, added_bytes=row_bytes)
    work = KerasWork(functools.partial(ShardEntropies, files, names, given, options), options.uses_other_processes)
    summaries = []

    def write(folder: ShardFolder, number_of_shards: int) -> None:
        def scored(windows: Iterator[Window]) -> Iterator[tuple[Window, np.ndarray]]:
            parts = (np.frombuffer(folder.read(number, 0), np.float64) for number in range(number_of_shards))
            for window, values in _with_values(windows, parts, len(names), files.input):
                yield window, score_rows(METHODS[options.method], window, list(values[window.scored].T))

        summaries.append(_write(files, options, scored, Progress))

    run = run_in_shards(job, options.open_engine(), work, join=write, progress=progress, show=show)
    return dataclasses.replace(summaries[0], before=run.written.before)


def _models_elsewhere(
    names: Sequence[str], models: Mapping[str, ModelOrPath], in_other_processes: bool
) -> tuple[dict[str, ModelOrPath], dict[str, object]]:
    """Returns the models as workers open them, and the checksums of the models in `names`."""
    given = dict(models)
    checksums: dict[str, object] = {}
    for name in names:
        model = models[name]
        if isinstance(model, str | os.PathLike) and is_file(model):
            checksums[name], given[name] = file_checksum(model), absolute(model)
        else:
            directory = ModelDirectory.open(model, weights=False)
            checksums[name] = directory.checksums()
            if in_other_processes:
                given[name] = directory.path_elsewhere(model)
    return given, checksums


def _with_values(
    windows: Iterator[Window], parts: Iterator[np.ndarray], columns: int, path: FilePath
) -> Iterator[tuple[Window, np.ndarray]]:
    """Yields each window with its rows `(records, columns)` of the values, which come in parts of other sizes.

    Raises:
        InputError: if the windows, read again from a path, have more records than there are values, or fewer.
    """
    values = np.empty((0, columns))
    for window in windows:
        size = len(window.records)
        while len(values) < size:
            part = next(parts, None)
            if part is None:
                raise _changed(path)
            values = np.concatenate([values, part.reshape(-1, columns)])
        rows, values = values[:size], values[size:]
        yield window, rows
    if len(values) or next(parts, None) is not None:
        raise _changed(path)


def _score_line(record: Record, values: np.ndarray) -> bytes:
    return append_columns(record.raw, [f"{value:.6g}" for value in values]) + b"\n"


def _selected(scores: np.ndarray, num_pairs: int, options: SelectionOptions) -> np.ndarray:
    """Returns which pairs are selected. `share` refers to `num_pairs`, without malformed pairs and duplicates."""
    has_score = scores > -np.inf
    if options.threshold is not None:
        return has_score & (scores >= options.threshold)
    wanted = options.top if options.share is None else int(options.share * num_pairs + 0.5)
    selected = np.zeros(len(scores), bool)
    selected[np.argsort(-scores, kind="stable")[:wanted]] = True
    return selected & has_score


def _write_selected(path: FilePath, file: BinaryIO, selected: np.ndarray) -> None:
    with InputLines(path) as lines:
        for line, is_selected in itertools.zip_longest(lines, selected):
            if line is None or is_selected is None:
                raise _changed(path)
            if is_selected:
                file.write(line + b"\n")


def _changed(path: FilePath) -> InputError:
    found = "found a different number of lines than when the pairs were scored"
    remedy = "run the same command again when no program writes to the file any more"
    return InputError(found, "expected the same file", remedy, path)
