"""Data selection as a function: the best sentence pairs of a corpus, as they stand in its files."""

import contextlib
import dataclasses
import functools
import hashlib
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, InputLines, Record, model_words, open_output, pair_format
from keras_encdec.runtime.files import STANDARD_STREAM, check_distinct_files
from keras_encdec.runtime.progress import FileSummary, Progress
from keras_encdec.runtime.workers import in_order, threads
from keras_encdec.scoring.record_scorer import windows
from keras_encdec.scoring.text_scorer import ModelOrPath
from keras_encdec.selection.cross_entropies import (
    CrossEntropies,
    LanguageModelEntropies,
    NgramEntropies,
    TranslationEntropies,
    check_end_weight,
)
from keras_encdec.selection.selection_scores import METHODS

WINDOW = 4096


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive records, and the indices of those that are scored."""

    records: Sequence[Record]
    scored: Sequence[int]


class Candidates:
    """Which records are scored, in their order; counts those that are not.

    Args:
        max_tokens: int. A pair with a longer side has no score; `None` is any number.
        deduplicate: bool. Whether of pairs with the same text only the first is scored.

    Attributes:
        duplicates: int. Pairs so far that are the same as one before.
        without_score: int. Pairs so far with an empty side or one of more than `max_tokens` tokens.
    """

    def __init__(self, max_tokens: int | None, deduplicate: bool) -> None:
        self._max_tokens = math.inf if max_tokens is None else max_tokens
        self._seen: set[bytes] | None = set() if deduplicate else None
        self.duplicates = self.without_score = 0

    def windows(self, records: Iterable[Record]) -> Iterator[Window]:
        """The records in windows of 4,096; the last one may have fewer."""
        for window in windows(records, WINDOW):
            yield Window(window, [i for i, record in enumerate(window) if self._is_scored(record)])

    def _is_scored(self, record):
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


FORMATS = ("parallel", "tsv")
_TRANSLATION = ("model_dir", "reverse_model_dir")
_OF_SOURCE, _OF_TARGET = ("in_domain_source", "general_source"), ("in_domain_target", "general_target")
# The models that each method can be given, in the order of its function's arguments.
MODELS = {"dual": [_TRANSLATION], "moore_lewis": [_OF_SOURCE, _OF_TARGET], "bilingual": [_OF_SOURCE + _OF_TARGET]}
WINDOWS = 2
MAX_TOKENS = 1_000


@dataclasses.dataclass(frozen=True)
class SelectionSummary(FileSummary):
    """What `select_pairs` did.

    Attributes:
        lines: int. Pairs selected.
        seconds: float.
        output: the file.
        pairs: int. Pairs read.
        duplicates: int. Pairs left out because the same pair stood before them.
        malformed: int. Pairs left out because they cannot be read.
        without_score: int. Pairs left out because a side is empty or has more than `max_tokens` tokens.
        lowest: float. Score of the worst pair selected; `None` when there is none.
    """

    pairs: int = 0
    duplicates: int = 0
    malformed: int = 0
    without_score: int = 0
    lowest: float | None = None

    def __str__(self) -> str:
        said = f"{self.lines:,} of {self.pairs:,} pairs in {self.seconds:,.1f} s: {self._result}"
        if self.lowest is not None:
            said += f"; the lowest score is {self.lowest:.6g}"
        counts = {
            "the same as one before": self.duplicates,
            "malformed": self.malformed,
            "empty or too long": self.without_score,
        }
        left_out = [f"{count:,} {reason}" for reason, count in counts.items() if count]
        return said + (f"; left out: {', '.join(left_out)}" if left_out else "")


def select_pairs(
    input: FilePath,
    output: FilePath,
    method: str,
    models: Mapping[str, ModelOrPath],
    format: str = "parallel",
    *,
    source: FilePath | None = None,
    source_output: FilePath | None = None,
    scores: FilePath | None = None,
    top: int | None = None,
    share: float | None = None,
    threshold: float | None = None,
    deduplicate: bool = False,
    max_tokens: int | None = MAX_TOKENS,
    end_weight: float = 1.0,
    encoding: str | None = None,
    on_error: str = "stop",
    progress: Callable[[InputLines], Progress] = Progress,
) -> SelectionSummary:
    """Writes those sentence pairs of a corpus that score best, unchanged and in their order.

    The corpus is read twice: to score, and to write. Of equal scores the pair that comes first is the better one. A
    pair with an empty side or with more than `max_tokens` words has no score and is never selected. In memory there
    are 8 bytes a pair, and about 100 with `deduplicate`.

    Args:
        input: file of pairs, or of the targets of parallel text, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz: the lines of `input` that are selected.
        method: str. "dual": `dual_conditional_cross_entropy`; "moore_lewis": `cross_entropy_difference` of one side;
            "bilingual": `bilingual_difference`.
        models: dict. With "dual": "model_dir" and "reverse_model_dir", directories of a model of p(target | source)
            and of one of p(source | target). Otherwise "in_domain_source" and "general_source", "in_domain_target" and
            "general_target", all four or with "moore_lewis" those of one side: each the directory of a language model,
            or an n-gram model, see `NgramEntropies`. A ModelDirectory or a
            TextScorer may stand for its directory.
        format: str. "parallel" or "tsv". Defaults to "parallel".
        source: of parallel text: the sources. Defaults to `None`.
        source_output: of parallel text: file to write the selected sources to. Defaults to `None`.
        scores: file to write a line to for each pair read: source, target, score, and the cross-entropies (nats a
            token) that it is made of, in the order of `models` above, separated by tabs. The score of a pair that has
            none is -inf. Optional.
        top: int. How many pairs to select.
        share: float in (0, 1]. What share of the pairs that are neither malformed nor left out as the same as another,
            to the nearest number, to select.
        threshold: float. The score that a pair needs. Exactly one of `top`, `share` and `threshold` is given.
        deduplicate: bool. Whether of pairs with the same text only the first may be selected. Defaults to `False`.
        max_tokens: int. See above. Defaults to 1,000; `None` is any number.
        end_weight: float. With "dual": number of tokens that the end of sequence counts as in the cross-entropies, also
            in those of `scores`; see `TranslationEntropies`. More than 1 helps to detect truncated sentences. Defaults
            to `1.0`, the published score.
        encoding: str. Encoding of the corpus. Defaults to `None`: UTF-8, and other bytes are an error.
        on_error: str. "stop" raises at a malformed line, "keep" leaves it out and counts it. Defaults to "stop".
        progress: callable of the InputLines that are read, which gives a Progress, such as `ReadingProgress`.
            Defaults to `Progress`, which shows nothing.

    Returns:
        SelectionSummary.

    Raises:
        ConfigurationError: a ValueError, for arguments that contradict one another.
        ImportError: when kenlm is needed and is not installed.
        InputError: when a model or the corpus cannot be used.

    Example:

        models = {"model_dir": "en-fr", "reverse_model_dir": "fr-en"}
        select_pairs("train.fr", "best.fr", "dual", models, source="train.en", source_output="best.en", share=0.5)
    """
    _check(method, format, source, source_output, top, share, threshold, max_tokens, (input, source))
    check_end_weight(end_weight)
    if end_weight != 1 and method != "dual":
        raise ConfigurationError("found {end_weight} with {method}=%s, expected it with dual", method)
    check_distinct_files(input, source, output, source_output, scores)
    names = _model_names(method, models)
    known = pair_format(format)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open_output(output))
        source_file = stack.enter_context(open_output(source_output)) if source_output is not None else None
        score_file = stack.enter_context(open_output(scores)) if scores is not None else None
        entropies = [stack.enter_context(contextlib.closing(each)) for each in _entropies(names, models, end_weight)]
        candidates = Candidates(max_tokens, deduplicate)
        with known.open_reader(input, source, encoding, on_error) as reader, progress(reader.lines) as done:
            reader.kept = "leave such lines out"
            found, score = array("d"), functools.partial(_scores, METHODS[method], entropies)
            with threads(WINDOWS) as executor:
                for window, rows in in_order(executor, score, candidates.windows(reader), WINDOWS):
                    found.extend(rows[0])
                    if score_file:
                        score_file.writelines(map(_score_line, window.records, rows.T))
                    done.add(len(window.records))
        values = np.frombuffer(found)
        selected = _selected(values, len(values) - candidates.duplicates - reader.malformed, top, share, threshold)
        for path, written in ((input, file), (source, source_file)):
            if written:
                _write_selected(path, written, selected)
    lowest = float(values[selected].min()) if selected.any() else None
    return SelectionSummary(
        int(selected.sum()),
        done.seconds,
        output,
        len(values),
        candidates.duplicates,
        reader.malformed,
        candidates.without_score,
        lowest,
    )


def _scores(method, entropies: Sequence[CrossEntropies], window: Window) -> tuple[Window, np.ndarray]:
    """The window, a row of its scores, and one for each of the cross-entropies; -inf and nan without a score."""
    rows = np.full((1 + len(entropies), len(window.records)), np.nan)
    rows[0] = -np.inf
    if window.scored:
        pairs = [(window.records[i].source, window.records[i].target) for i in window.scored]
        values = [each(pairs) for each in entropies]
        rows[:, window.scored] = [method(*values), *values]
    return window, rows


def _score_line(record: Record, values: np.ndarray) -> bytes:
    return b"\t".join([record.raw, *(f"{value:.6g}".encode() for value in values)]) + b"\n"


def _selected(values: np.ndarray, pairs: int, top: int | None, share: float | None, threshold: float | None):
    """Which pairs are selected: boolean array."""
    has_score = values > -np.inf
    if threshold is not None:
        return has_score & (values >= threshold)
    wanted = top if share is None else int(share * pairs + 0.5)
    order = np.argsort(-values, kind="stable")[:wanted]
    selected = np.zeros(len(values), bool)
    selected[order] = True
    return selected & has_score


def _write_selected(path: FilePath, file: BinaryIO, selected: np.ndarray) -> None:
    with InputLines(path) as lines:
        for line, is_selected in zip(lines, selected, strict=True):
            if is_selected:
                file.write(line + b"\n")


def _model_names(method: str, models: Mapping[str, ModelOrPath]) -> Sequence[str]:
    """The names of the models that are given, in the order of the method's arguments."""
    for names in MODELS[method]:
        if set(models) == set(names):
            return names
    found = " and ".join(f"{{{name}}}" for name in models) or "no models"
    expected = ", or ".join(" and ".join(f"{{{name}}}" for name in names) for names in MODELS[method])
    raise ConfigurationError(f"found {found} with {{method}}=%s, expected {expected}", method)


def _entropies(names: Sequence[str], models: Mapping[str, ModelOrPath], end_weight: float) -> Iterator[CrossEntropies]:
    """What gives the cross-entropies of the models."""
    vocabularies = {}
    for name in names:
        flag, given, side = f"--{name}", models[name], name.rpartition("_")[2]
        if name in _TRANSLATION:
            yield TranslationEntropies(given, name.startswith("reverse"), flag, end_weight)
        elif isinstance(given, str | os.PathLike) and os.path.isfile(given):
            yield NgramEntropies(given, side)
        else:
            model = LanguageModelEntropies(given, side, flag)
            if model.vocabulary != vocabularies.setdefault(side, model.vocabulary):
                raise InputError(
                    f"found another vocabulary than that of --in_domain_{side}",
                    "expected one, as their probabilities are compared",
                    "train both with one --target_vocabulary",
                    model.path,
                )
            yield model


def _check(method, format, source, source_output, top, share, threshold, max_tokens, inputs) -> None:
    for name, value, allowed in (("method", method, METHODS), ("format", format, FORMATS)):
        if value not in allowed:
            raise ConfigurationError(f"found {{{name}}}=%r, expected one of %s", value, ", ".join(allowed))
    for name, value in (("source", source), ("source_output", source_output)):
        if format == "parallel" and value is None:
            raise ConfigurationError(f"found parallel text without {{{name}}}, expected it")
        if format != "parallel" and value is not None:
            raise ConfigurationError(f"found {{{name}}} with {format} pairs, expected it with parallel text")
    given = {"top": top, "share": share, "threshold": threshold}
    given = [name for name, value in given.items() if value is not None]
    if len(given) != 1:
        found = " and ".join(f"{{{name}}}" for name in given) or "none of {top}, {share} and {threshold}"
        raise ConfigurationError(f"found {found}, expected one of {{top}}, {{share}} and {{threshold}}")
    if top is not None and top < 1:
        raise ConfigurationError("found {top}=%s, expected 1 or more", top)
    if share is not None and not 0 < share <= 1:
        raise ConfigurationError("found {share}=%s, expected more than 0 and at most 1", share)
    if threshold is not None and math.isnan(threshold):
        raise ConfigurationError("found {threshold}=%s, expected a number", threshold)
    if max_tokens is not None and max_tokens < 1:
        raise ConfigurationError("found {max_tokens}=%s, expected 1 or more", max_tokens)
    if any(path is not None and os.fspath(path) == STANDARD_STREAM for path in inputs):
        raise ConfigurationError("found - as an input, expected files: the corpus is read twice")
