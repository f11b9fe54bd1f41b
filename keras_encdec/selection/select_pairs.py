"""Selects the best sentence pairs of a corpus, and writes their lines unchanged."""

import contextlib
import dataclasses
import functools
import hashlib
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, InputLines, Record, model_words, open_output, pair_format
from keras_encdec.runtime.files import STANDARD_STREAM, check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.runtime.shards import windows
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.text_scorer import ModelOrPath
from keras_encdec.selection.cross_entropies import (
    CrossEntropies,
    LanguageModelEntropies,
    NgramEntropies,
    TranslationEntropies,
)
from keras_encdec.selection.selection_options import METHODS, ScoringMethod, SelectionOptions

FORMATS = ("parallel", "tsv")
_TRANSLATION = ("model_dir", "reverse_model_dir")
_SOURCE_MODELS, _TARGET_MODELS = ("in_domain_source", "general_source"), ("in_domain_target", "general_target")
# The models of each method, in the order of its function's arguments. A method may allow several choices.
MODELS: dict[str, list[tuple[str, ...]]] = {
    "dual": [_TRANSLATION],
    "moore_lewis": [_SOURCE_MODELS, _TARGET_MODELS],
    "bilingual": [_SOURCE_MODELS + _TARGET_MODELS],
}
# Number of windows that are scored at the same time.
WINDOWS = 2
# Number of records that are scored together.
WINDOW = 4096


@dataclasses.dataclass(frozen=True)
class SelectionSummary(FileSummary):
    """Summary of `select_pairs`.

    Attributes:
        lines: int. Pairs selected.
        seconds: float.
        output: path of the file.
        pairs: int. Pairs read.
        duplicates: int. Pairs left out because an earlier pair has the same text.
        malformed: int. Pairs left out because their lines are malformed.
        without_score: int. Pairs left out because a side is empty or has more than `max_tokens` tokens.
        lowest: float. Lowest score of a selected pair; `None` if no pair is selected.
    """

    pairs: int = 0
    duplicates: int = 0
    malformed: int = 0
    without_score: int = 0
    lowest: float | None = None

    def __str__(self) -> str:
        summary = f"{self.lines:,} of {self.pairs:,} pairs in {self.seconds:,.1f} s: {self._result}"
        if self.lowest is not None:
            summary += f"; the lowest score is {self.lowest:.6g}"
        counts = {
            "the same as one before": self.duplicates,
            "malformed": self.malformed,
            "empty or too long": self.without_score,
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
    **values: Any,
) -> SelectionSummary:
    """Writes the sentence pairs of a corpus with the highest scores, unchanged and in their order.

    The corpus is read twice: to score, and to write. If two pairs have the same score, the earlier one is preferred. A
    pair with an empty side, or with more than `max_tokens` words on a side, has no score and is never selected. A pair
    takes 8 bytes of memory, and about 100 with `deduplicate`.

    Args:
        input: file of pairs, or of the targets of parallel text, plain or gzipped.
        output: file to write the selected lines of `input` to, gzipped if its name ends in .gz.
        models: dict. With the method "dual" (`dual_conditional_cross_entropy`): "model_dir" and "reverse_model_dir",
            directories of a model of p(target | source) and of one of p(source | target). With "moore_lewis"
            (`cross_entropy_difference`): "in_domain_source" and "general_source", or "in_domain_target" and
            "general_target"; with "bilingual" (`bilingual_difference`) all four: each the directory of a language
            model, or an n-gram model, see `NgramEntropies`. A ModelDirectory or a TextScorer may stand for its
            directory.
        options: SelectionOptions. Defaults to `None`: the defaults of the command.
        format: str. "parallel" or "tsv". Defaults to "parallel".
        source: file of the sources, only with parallel text. Defaults to `None`.
        source_output: file to write the selected sources to, only with parallel text. Defaults to `None`.
        scores: file to write a line to for each pair read: source, target, score, and the cross-entropies (nats per
            token) that it is computed from, in the order of `models` above, separated by tabs. A pair without a score
            gets -inf. Optional.
        progress: callable of the InputLines that are read, which returns a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Returns:
        SelectionSummary.

    Raises:
        ConfigurationError: a ValueError, for arguments that contradict one another.
        ImportError: if kenlm is needed and is not installed.
        InputError: if a model or the corpus cannot be used.

    Example:

        models = {"model_dir": "en-fr", "reverse_model_dir": "fr-en"}
        select_pairs("train.fr", "best.fr", models, source="train.en", source_output="best.en", share=0.5)
    """
    options = SelectionOptions.combined(options, values)
    if not options.amounts:
        raise ConfigurationError("found none of {top}, {share} and {threshold}, expected one")
    _check_files(format, input, source, source_output)
    _check_standard_output(output=output, source_output=source_output, scores=scores)
    check_distinct_files(input, source, output, source_output, scores)
    names = _model_names(options.method, models)
    known = pair_format(format)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_output(output))
        source_file = stack.enter_context(open_output(source_output)) if source_output is not None else None
        score_file = stack.enter_context(open_output(scores)) if scores is not None else None
        entropies = [
            stack.enter_context(contextlib.closing(each)) for each in _entropies(names, models, options.end_weight)
        ]
        candidates = Candidates(options.max_tokens, options.deduplicate)
        with (
            known.open_reader(input, source, options.encoding, options.on_error) as reader,
            progress(reader.lines) as done,
        ):
            reader.kept = "leave such lines out"
            collected, score = array("d"), functools.partial(_scores, METHODS[options.method], entropies)
            with threads(WINDOWS) as executor:
                for window, rows in in_order(executor, score, candidates.windows(reader), WINDOWS):
                    collected.extend(rows[0])
                    if score_file:
                        score_file.writelines(map(_score_line, window.records, rows.T))
                    done.add(len(window.records))
        pair_scores = np.frombuffer(collected)
        selected = _selected(pair_scores, len(pair_scores) - candidates.duplicates - reader.malformed, options)
        for path, written in ((input, file), (source, source_file)):
            if path is not None and written:
                _write_selected(path, written, selected)
    return SelectionSummary(
        int(selected.sum()),
        done.seconds,
        output,
        len(pair_scores),
        candidates.duplicates,
        reader.malformed,
        candidates.without_score,
        float(pair_scores[selected].min()) if selected.any() else None,
    )


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive records, and the indices of the records that are scored."""

    records: Sequence[Record]
    scored: Sequence[int]


class Candidates:
    """Chooses the records that are scored, and counts the others.

    Args:
        max_tokens: int. A pair with a longer side has no score; `None` for no limit.
        deduplicate: bool. Whether only the first of several pairs with the same text is scored.

    Attributes:
        duplicates: int. Number of pairs so far with the same text as an earlier pair.
        without_score: int. Number of pairs so far with an empty side, or with a side of more than `max_tokens` tokens.
    """

    def __init__(self, max_tokens: int | None, deduplicate: bool) -> None:
        self._max_tokens = math.inf if max_tokens is None else max_tokens
        self._seen: set[bytes] | None = set() if deduplicate else None
        self.duplicates = self.without_score = 0

    def windows(self, records: Iterable[Record]) -> Iterator[Window]:
        """Yields the records in windows of 4,096; the last window may have fewer."""
        for window in windows(records, WINDOW):
            yield Window(window, [i for i, record in enumerate(window) if self._is_scored(record)])

    def _is_scored(self, record: Record) -> bool:
        if record.problem is not None:
            return False
        if self._seen is not None:
            text = f"{record.source}\t{record.target}".encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(text, digest_size=16).digest()
            if digest in self._seen:
                self.duplicates += 1
                return False
            self._seen.add(digest)
        lengths = [len(model_words(side, factored=False)) for side in (record.source, record.target)]
        has_score = min(lengths) > 0 and max(lengths) <= self._max_tokens
        self.without_score += not has_score
        return has_score


def _scores(method: ScoringMethod, entropies: Sequence[CrossEntropies], window: Window) -> tuple[Window, np.ndarray]:
    """Scores a window. Returns it and a float array `(1 + models, records)`: scores, and cross-entropies by each model.

    A record that is not scored gets the score -inf and the cross-entropies nan.
    """
    rows = np.full((1 + len(entropies), len(window.records)), np.nan)
    rows[0] = -np.inf
    if window.scored:
        pairs = [(window.records[i].source, window.records[i].target) for i in window.scored]
        values = [each(pairs) for each in entropies]
        rows[:, window.scored] = [method(*values), *values]
    return window, rows


def _score_line(record: Record, values: np.ndarray) -> bytes:
    return b"\t".join([record.raw, *(f"{value:.6g}".encode() for value in values)]) + b"\n"


def _selected(scores: np.ndarray, num_pairs: int, options: SelectionOptions) -> np.ndarray:
    """Selects pairs by their scores, as a boolean array. `num_pairs` counts those not malformed and not duplicates."""
    has_score = scores > -np.inf
    if options.threshold is not None:
        return has_score & (scores >= options.threshold)
    wanted = options.top if options.share is None else int(options.share * num_pairs + 0.5)
    selected = np.zeros(len(scores), bool)
    selected[np.argsort(-scores, kind="stable")[:wanted]] = True
    return selected & has_score


def _write_selected(path: FilePath, file: BinaryIO, selected: np.ndarray) -> None:
    with InputLines(path) as lines:
        for line, is_selected in zip(lines, selected, strict=True):
            if is_selected:
                file.write(line + b"\n")


def _model_names(method: str, models: Mapping[str, ModelOrPath]) -> Sequence[str]:
    """Returns the names of the given models, in the order of the method's arguments."""
    for names in MODELS[method]:
        if set(models) == set(names):
            return names
    given = " and ".join(f"{{{name}}}" for name in models) or "no models"
    expected = ", or ".join(" and ".join(f"{{{name}}}" for name in names) for names in MODELS[method])
    raise ConfigurationError(f"found {given} with {{method}}=%s, expected {expected}", method)


def _entropies(names: Sequence[str], models: Mapping[str, ModelOrPath], end_weight: float) -> Iterator[CrossEntropies]:
    """Opens the models that compute the cross-entropies."""
    vocabularies: dict[str, list[str]] = {}
    for name in names:
        flag, model, side = f"--{name}", models[name], name.rpartition("_")[2]
        if name in _TRANSLATION:
            yield TranslationEntropies(model, name.startswith("reverse"), flag, end_weight)
        elif isinstance(model, str | os.PathLike) and os.path.isfile(model):
            yield NgramEntropies(model, side)
        else:
            entropies = LanguageModelEntropies(model, side, flag)
            if entropies.vocabulary != vocabularies.setdefault(side, entropies.vocabulary):
                raise InputError(
                    f"found another vocabulary than that of --in_domain_{side}",
                    "expected the same one, because the probabilities are compared",
                    "train both with the same --target_vocabulary",
                    entropies.path,
                )
            yield entropies


def _check_files(format: str, input: FilePath, source: FilePath | None, source_output: FilePath | None) -> None:
    if format not in FORMATS:
        raise ConfigurationError("found {format}=%r, expected one of %s", format, ", ".join(FORMATS))
    for name, path in (("source", source), ("source_output", source_output)):
        if format == "parallel" and path is None:
            raise ConfigurationError(f"found parallel text without {{{name}}}, expected a file")
        if format != "parallel" and path is not None:
            raise ConfigurationError(f"found {{{name}}} with {format} pairs, expected it with parallel text")
    if STANDARD_STREAM in [os.fspath(path) for path in (input, source) if path is not None]:
        raise ConfigurationError("found - as an input, expected files: the corpus is read twice")


def _check_standard_output(**outputs: FilePath | None) -> None:
    names = [name for name, path in outputs.items() if path is not None and os.fspath(path) == STANDARD_STREAM]
    if len(names) > 1:
        raise ConfigurationError(f"found {{{names[0]}}}=- and {{{names[1]}}}=-, expected a file for one of them")
