"""Tuning as a function: n-best lists and references in, weights out."""

import contextlib
import dataclasses
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError, shortened
from keras_encdec.formats import FilePath, InputLines, open_output, read_weights
from keras_encdec.formats.feature_weights import check_weights, replace_moses_weights, weights_text
from keras_encdec.runtime.files import check_distinct_files
from keras_encdec.runtime.unfinished import new_folder
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric, read_references
from keras_encdec.smt.tuning.mert import mert
from keras_encdec.smt.tuning.mira import mira
from keras_encdec.smt.tuning.nbest_features import NBestFeatures, read_nbest_features
from keras_encdec.smt.tuning.pro import pro
from keras_encdec.smt.tuning.tuning_options import TuningOptions

SEARCHES = {"mert": mert, "mira": mira, "pro": pro}


@dataclasses.dataclass(frozen=True)
class TunedWeights:
    """The weights that the search with one seed found.

    Attributes:
        seed: int.
        weights: dict of feature to list of float. The absolute values of all weights add up to 1.
        score: float. The metric's score of the best hypotheses of the lists, 0 to 100.
        test_score: float. The same for the held-out lists; `None` without them.
        seconds: float. Duration of the search.
        discarded_score: float. The score of the weights that the search ended with, if the initial weights have a
            better one and were kept; else `None`.
    """

    seed: int
    weights: dict[str, list[float]]
    score: float
    test_score: float | None
    seconds: float
    discarded_score: float | None = None

    def __str__(self) -> str:
        test = "" if self.test_score is None else f", test {self.test_score:.2f}"
        discarded = self.discarded_score
        kept = "" if discarded is None else f", the initial weights, as the search found {discarded:.2f}"
        return f"seed {self.seed}: {self.score:.2f}{test}, {self.seconds:.1f} s{kept}"


@dataclasses.dataclass(frozen=True)
class Tuning:
    """The result of `tune`.

    Attributes:
        algorithm: str.
        metric: str. What sacrebleu calls it, such as "BLEU".
        signature: str. Sacrebleu's.
        sentences, hypotheses: int. Number of sentences, and of distinct hypotheses, in the lists.
        missing: int. Number of sentences without hypotheses, which count as empty translations.
        initial_score: float. The score of the initial weights.
        initial_test_score: float. The same for the held-out lists; `None` without them.
        tuned: tuple of TunedWeights, one for each seed.
    """

    algorithm: str
    metric: str
    signature: str
    sentences: int
    hypotheses: int
    missing: int
    initial_score: float
    initial_test_score: float | None
    tuned: tuple[TunedWeights, ...]

    @property
    def remarks(self) -> list[str]:
        """Warnings for the user, as sentences."""
        remarks, worse = [], [tuned for tuned in self.tuned if tuned.discarded_score is not None]
        if worse:
            discarded = ", ".join(f"{tuned.discarded_score:.2f}" for tuned in worse)
            count = "The search" if len(self.tuned) == 1 else f"{len(worse)} of {len(self.tuned)} searches"
            remarks.append(
                f"{count} found weights that are worse on the lists than the initial ones ({self.metric} {discarded} "
                f"instead of {worse[0].score:.2f}); the initial weights were kept."
            )
        if not worse and self.best.score < self.initial_score:
            remarks.append(
                f"The lists in their own order have a better score ({self.metric} {self.initial_score:.2f}) than the "
                f"weights that were found ({self.best.score:.2f}); give --weights to begin with."
            )
        return remarks

    @property
    def best(self) -> TunedWeights:
        """The weights with the best score on the lists that were tuned on."""
        return max(self.tuned, key=lambda tuned: tuned.score)

    def to_dict(self) -> dict[str, Any]:
        """The tuning as values that JSON can hold."""
        scores, tests = self._columns()
        summary = {"mean": _mean(scores), "deviation": _deviation(scores), "best_seed": self.best.seed}
        return {**dataclasses.asdict(self), **summary, "test_mean": _mean(tests), "test_deviation": _deviation(tests)}

    def __str__(self) -> str:
        columns = self._columns()
        rows = [
            ("", self.metric, "test"),
            ("before", _shown(self.initial_score), _shown(self.initial_test_score)),
            *[(f"seed {tuned.seed}", _shown(tuned.score), _shown(tuned.test_score)) for tuned in self.tuned],
        ]
        last = []
        if len(self.tuned) > 1:
            rows += [("mean", *map(_shown, map(_mean, columns))), ("deviation", *map(_shown, map(_deviation, columns)))]
            last = [f"best: seed {self.best.seed}"]
        if self.initial_test_score is None:
            rows = [row[:2] for row in rows]
        lines = ["".join([row[0].ljust(10), *(cell.rjust(8) for cell in row[1:])]).rstrip() for row in rows]
        return "\n".join([f"{self.metric}|{self.signature}", *lines, *last])

    def _columns(self) -> tuple[list[float], list[float]]:
        tests = [] if self.initial_test_score is None else [tuned.test_score for tuned in self.tuned]
        return [tuned.score for tuned in self.tuned], tests


def _mean(scores: Sequence[float]) -> float | None:
    return float(np.mean(scores)) if scores else None


def _deviation(scores: Sequence[float]) -> float | None:
    """The standard deviation; `None` for a single score."""
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


def _shown(score):
    return "" if score is None else f"{score:.2f}"


def tune(
    nbest: Sequence[FilePath],
    references: Sequence[FilePath],
    weights: FilePath | None = None,
    options: TuningOptions | None = None,
    *,
    other_weights: Mapping[str, Sequence[float]] | None = None,
    test_nbest: Sequence[FilePath] = (),
    test_references: Sequence[FilePath] = (),
    report: Callable[[TunedWeights], object] = lambda tuned: None,
    **values: Any,
) -> Tuning:
    """Finds the weights with which the hypotheses of n-best lists that have the highest totals get the best score.

    If a search ends with weights that score worse on the lists than the initial weights, the initial weights are kept,
    and the result says so.

    Hypotheses and references are compared without Moses's escapes and factors. Among hypotheses with the same total,
    the first one counts, as for `rerank`. A sentence without hypotheses counts as an empty translation.

    Args:
        nbest: n-best lists of the same sentences, such as those of several runs of a decoder.
        references: files of reference translations, a sentence a line; id 0 is the first line.
        weights: the initial weights: moses.ini, or a file of lines "Name= w [w ...]". Features that it lacks get 0.
            Optional.
        options: TuningOptions. Defaults to `None`: those of the command. See `mert`, `mira` and `pro` for the
            algorithms.
        other_weights: dict of feature name to list of float; they replace those of the same names in `weights`.
            Optional.
        test_nbest, test_references: held-out lists, which are only scored, and their references. Optional.
        report: callable of each TunedWeights when it is found. Defaults to nothing.
        **values: options by name, which override those in `options`.

    Returns:
        Tuning.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used, or not together.
        ImportError: when sacrebleu is not installed.
        InputError: when lists, references and weights cannot be read or do not fit one another.

    Example:

        tuning = tune(["val.nbest.gz"], ["val.fr"], "moses.ini", seeds=5, weights_out="tuned.weights")
        print(tuning)
    """
    options = TuningOptions.combined(options, values)
    if bool(test_nbest) != bool(test_references):
        raise ConfigurationError("found {test_nbest} or {test_references} alone, expected both or neither")
    if options.moses_ini_out is not None and weights is None:
        raise ConfigurationError("found {moses_ini_out} without {weights}, expected the moses.ini to rewrite")
    outputs = _Outputs(options, weights)
    for path in (*nbest, *references, *test_nbest, *test_references, weights):
        check_distinct_files(path, *outputs.files)
    initial, unlisted = read_weights(weights) if weights is not None else ({}, set())
    with outputs.opened():
        metric = CorpusMetric(options.metric, read_references(references, options.encoding), options.tokenize)
        lists = _read_lists(nbest, references, metric, options)
        begin = _initial_weights(lists, initial, unlisted, other_weights or {}, weights)
        outputs.check(lists.to_weights(begin))
        held_out = None
        if test_nbest:
            test_metric = CorpusMetric(
                options.metric, read_references(test_references, options.encoding), options.tokenize
            )
            held_out = _read_lists(test_nbest, test_references, test_metric, options, lists.lengths)
        tuned = []
        for weights_of_seed in _search(lists, begin, held_out, options):
            tuned.append(weights_of_seed)
            report(weights_of_seed)
        tuning = Tuning(
            options.algorithm,
            metric.label,
            metric.signature,
            len(lists.starts),
            len(lists.features),
            lists.missing,
            lists.score(begin),
            held_out and held_out.score(begin),
            tuple(tuned),
        )
        outputs.write(tuning)
    return tuning


def _read_lists(nbest, references, metric, options, lengths=None) -> NBestFeatures:
    return read_nbest_features(
        nbest, references, metric, lengths=lengths, word_penalty=options.word_penalty, encoding=options.encoding
    )


def _search(
    lists: NBestFeatures, begin: np.ndarray, held_out: NBestFeatures | None, options: TuningOptions
) -> Iterator[TunedWeights]:
    """Searches for weights with each seed; yields the initial ones where the search ends with worse weights."""
    # Weights of 0 leave the lists in their order and rank nothing, so they are never kept.
    initial = _rounded(begin)
    initial_score = lists.score(initial) if begin.any() else None
    for seed in range(1, options.seeds + 1):
        start = time.monotonic()
        weights = _rounded(SEARCHES[options.algorithm](lists, begin, np.random.default_rng(seed)))
        score, discarded = lists.score(weights), None
        if initial_score is not None and score < initial_score:
            weights, score, discarded = initial, initial_score, score
        test_score = held_out and held_out.score(weights)
        yield TunedWeights(seed, lists.to_weights(weights), score, test_score, time.monotonic() - start, discarded)


class _Outputs:
    """The files that a tuning writes, with the moses.ini that one of them is made of."""

    def __init__(self, options: TuningOptions, weights: FilePath | None) -> None:
        self._options, self._moses_ini_path = options, weights
        self._moses_ini = "" if options.moses_ini_out is None else _moses_ini(weights)

    @property
    def files(self) -> list[FilePath]:
        """The files that are written."""
        names = [self._options.weights_out, self._options.moses_ini_out]
        if (folder := self._options.all_weights_out) is not None:
            names += [pathlib.Path(folder, f"weights.{seed}") for seed in range(1, self._options.seeds + 1)]
        return [name for name in names if name is not None]

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Makes the folder and checks that the files can be written, so that no search is in vain."""
        folder = self._options.all_weights_out
        with new_folder(folder) if folder is not None else contextlib.nullcontext():
            for path in self.files:
                with open_output(path, keep=False):
                    pass
            yield

    def check(self, weights: dict[str, list[float]]) -> None:
        """Raises InputError where the moses.ini lacks a feature: before the search, not after it."""
        if self._moses_ini:
            replace_moses_weights(self._moses_ini, weights, self._moses_ini_path)

    def write(self, tuning: Tuning) -> None:
        """Writes the weights."""
        options, texts = self._options, {}
        if options.weights_out is not None:
            texts[options.weights_out] = _text(tuning, tuning.best)
        if options.moses_ini_out is not None:
            texts[options.moses_ini_out] = replace_moses_weights(
                self._moses_ini, tuning.best.weights, self._moses_ini_path
            )
        if options.all_weights_out is not None:
            folder = pathlib.Path(options.all_weights_out)
            texts |= {folder / f"weights.{tuned.seed}": _text(tuning, tuned) for tuned in tuning.tuned}
        for path, text in texts.items():
            with open_output(path) as file:
                file.write(text.encode("utf-8", "surrogateescape"))


def _moses_ini(path):
    with InputLines(path) as lines:
        text = b"\n".join(lines)
        return (text + b"\n" * lines.ended_with_newline).decode("utf-8", "surrogateescape")


def _initial_weights(lists: NBestFeatures, weights, unlisted, other_weights, path):
    """The initial weights as an array, checked against the features of the lists."""
    check_weights(other_weights)
    for name, values in {**weights, **other_weights}.items():
        length = lists.lengths.get(name)
        where = None if name in other_weights else path
        if length is None and any(values) and "_" not in name and name not in unlisted - other_weights.keys():
            raise InputError(
                f"found weights of {shortened(name)}",
                "expected features of the lists only",
                "give lists with the feature, or the weight 0 to leave it out",
                where,
            )
        if length is not None and length != len(values):
            raise InputError(
                f"found {len(values)} weights of {shortened(name)}",
                f"expected {length}, its number of values in the lists",
                "give the weights that belong to the lists",
                where,
            )
    return lists.to_array({**weights, **other_weights})


def _rounded(weights):
    """Weights whose absolute values add up to 1, rounded like those in the file, so that these are scored."""
    total = np.abs(weights).sum()
    return np.array([float(f"{value / total:.6g}") for value in weights]) if total > 0 else weights


def _text(tuning, tuned):
    return weights_text(
        tuned.weights, f"{tuning.algorithm}, seed {tuned.seed}: {tuning.metric} {tuned.score:.2f} on the lists"
    )
