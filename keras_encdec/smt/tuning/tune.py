"""Tunes the weights of features on n-best lists and their references."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

import numpy as np

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import InputError, shortened
from keras_encdec.formats import FilePath, open_output, read_nbest_weights
from keras_encdec.formats.feature_weights import Weights, check_weights, weights_text
from keras_encdec.formats.moses_ini import read_moses_ini, replace_moses_weights
from keras_encdec.runtime.files import (
    STANDARD_STREAM,
    check_can_be_read_again,
    check_distinct_files,
    check_lists,
    is_url,
    joined,
)
from keras_encdec.runtime.open_output import write_files
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.unfinished import new_folder
from keras_encdec.smt.evaluation.corpus_metric import TOKENIZERS, Array, CorpusMetric, read_references
from keras_encdec.smt.tuning.nbest_features import NBestFeatures, read_nbest_features
from keras_encdec.smt.tuning.tuning_result import TunedWeights, Tuning
from keras_encdec.smt.tuning.weight_searches import mert, mira, pro
from keras_encdec.task_options import EncodingOption

Search = Callable[[NBestFeatures, Array, np.random.Generator], Array]
SEARCHES: dict[str, Search] = {"mert": mert, "mira": mira, "pro": pro}
TUNING_METRICS = ("bleu", "chrf")


@dataclasses.dataclass(frozen=True)
class WeightSearchOptions(Configuration):
    """Options of the search for weights."""

    algorithm: str = hyperparameter("mert", "Search for the weights: MERT, batch MIRA or PRO.", choices=tuple(SEARCHES))
    metric: str = hyperparameter("bleu", "Metric to maximize.", choices=TUNING_METRICS)
    seeds: int = hyperparameter(
        1, "Number of searches, with the seeds 1, 2 and so on; the best weights are written.", minimum=1
    )
    tokenize: str = hyperparameter(
        "none", "Sacrebleu's tokenizer for BLEU; none for tokenized text.", choices=TOKENIZERS
    )

    def check(self) -> None:
        super().check()
        if self.tokenize != "none" and self.metric != "bleu":
            raise ConfigurationError(
                "found {tokenize}=%s with {metric}=%s, expected it with bleu", self.tokenize, self.metric
            )


@dataclasses.dataclass(frozen=True)
class TuningOptions(WeightSearchOptions, EncodingOption):
    """Options of `tune`."""

    word_penalty: bool = hyperparameter(
        False, "Add the feature WordPenalty0, minus the number of words, to lists that lack it."
    )
    weights_out: str | None = hyperparameter(
        None, "File for the best weights, for encdec-rerank --weights.", group="files to write"
    )
    moses_ini_out: str | None = hyperparameter(
        None, "File for the moses.ini of --weights with the best weights.", group="files to write"
    )
    all_weights_out: str | None = hyperparameter(
        None,
        "Directory for the weights of each seed, in files weights.1 and so on; it is made if it is missing.",
        group="files to write",
    )

    def check(self) -> None:
        super().check()
        if self.weights_out == self.moses_ini_out == STANDARD_STREAM:
            raise ConfigurationError("found {weights_out}=- and {moses_ini_out}=-, expected a file for one of them")


def tune(
    nbest: Sequence[FilePath],
    references: Sequence[FilePath],
    weights: FilePath | None = None,
    options: TuningOptions | None = None,
    *,
    other_weights: Weights | None = None,
    test_nbest: Sequence[FilePath] = (),
    test_references: Sequence[FilePath] = (),
    report: Callable[[TunedWeights], object] = lambda tuned: None,
    **values: object,
) -> Tuning:
    """Finds weights with which the hypotheses that have the highest totals get the best score.

    If the weights that a search finds have a lower score on the lists than the initial weights, the initial weights are
    kept, and the result says so.

    Hypotheses and references are compared without Moses's escapes and factors. Among hypotheses with the same total,
    the first one counts, as for `rerank`. A sentence without hypotheses counts as an empty translation, but lists that
    end before the last sentence are an error: they may be incomplete.

    Args:
        nbest: n-best lists of the same sentences, such as those of several runs of a decoder.
        references: files of reference translations, one sentence per line; id 0 is the first line.
        weights: the initial weights: moses.ini, or a file of lines "Name= w [w ...]". A feature without weights in it
            gets the weight 0. Optional.
        options: TuningOptions. Defaults to `None`: those of the command. See `mert`, `mira` and `pro` for the
            algorithms.
        other_weights: dict from feature name to list of float; they replace those of the same names in `weights`.
            Optional.
        test_nbest, test_references: held-out lists, which are only scored, and their references. Optional.
        report: function that is called with each TunedWeights when it is found. Defaults to one that does nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used or contradict one another.
        ImportError: if sacrebleu is not installed.
        InputError: if lists, references and weights cannot be read or do not fit one another.

    Example:

        tuning = tune(["val.nbest.gz"], ["val.fr"], "moses.ini", seeds=5, weights_out="tuned.weights")
        print(tuning)
    """
    options = TuningOptions.combined(options, values)
    check_lists(nbest=nbest, references=references)
    held_out_files = {"test_nbest": test_nbest, "test_references": test_references}
    check_lists(held_out_files, **held_out_files)
    if bool(test_nbest) != bool(test_references):
        raise ConfigurationError("found {test_nbest} or {test_references} alone, expected both or neither")
    if options.moses_ini_out is not None:
        if weights is None:
            raise ConfigurationError("found {moses_ini_out} without {weights}, expected the moses.ini to rewrite")
        check_can_be_read_again(weights)
    outputs = _Outputs(options, weights)
    for path in (*nbest, *references, *test_nbest, *test_references, weights):
        check_distinct_files(path, *outputs.files)
    initial, unlisted = read_nbest_weights(weights) if weights is not None else ({}, set())
    with outputs.opened():
        lists = _read_lists(nbest, references, options)
        begin = _initial_weights(lists, initial, unlisted, other_weights or {}, weights)
        outputs.check(lists.to_weights(begin))
        held_out = _read_lists(test_nbest, test_references, options, lists.lengths) if test_nbest else None
        tuned: list[TunedWeights] = []
        for weights_of_seed in _search(lists, begin, held_out, options):
            tuned.append(weights_of_seed)
            report(weights_of_seed)
        tuning = Tuning(
            options.algorithm,
            lists.metric.label,
            lists.metric.signature,
            len(lists.starts),
            len(lists.features),
            lists.missing,
            lists.score(begin),
            None if held_out is None else held_out.score(begin),
            tuple(tuned),
            bool(lists.varies.any()),
        )
        outputs.write(tuning)
    return tuning


def _read_lists(
    nbest: Sequence[FilePath],
    references: Sequence[FilePath],
    options: TuningOptions,
    lengths: Mapping[str, int] | None = None,
) -> NBestFeatures:
    """Reads n-best lists and their references; `lengths` as in `read_nbest_features`."""
    metric = CorpusMetric(options.metric, read_references(references, options.encoding), options.tokenize)
    return read_nbest_features(
        nbest, references, metric, lengths=lengths, word_penalty=options.word_penalty, encoding=options.encoding
    )


def _search(
    lists: NBestFeatures, begin: Array, held_out: NBestFeatures | None, options: TuningOptions
) -> Iterator[TunedWeights]:
    """Yields the weights that the search finds with each seed, or the initial weights if these have a better score."""
    # Weights that are all 0 rank nothing, so they are never kept.
    initial = _rounded(begin)
    initial_score = lists.score(initial) if begin.any() else None
    for seed in range(1, options.seeds + 1):
        start = time.monotonic()
        weights = _rounded(SEARCHES[options.algorithm](lists, begin, np.random.default_rng(seed)))
        score, discarded = lists.score(weights), None
        if initial_score is not None and score < initial_score:
            weights, score, discarded = initial, initial_score, score
        test_score = None if held_out is None else held_out.score(weights)
        yield TunedWeights(seed, lists.to_weights(weights), score, test_score, time.monotonic() - start, discarded)


class _Outputs:
    """The files that `tune` writes; `weights` may be the moses.ini that it rewrites."""

    def __init__(self, options: TuningOptions, weights: FilePath | None) -> None:
        self._options, self._moses_ini_path = options, weights
        self._moses_ini = "" if options.moses_ini_out is None or weights is None else read_moses_ini(weights)

    @property
    def files(self) -> list[FilePath]:
        names: list[FilePath | None] = [self._options.weights_out, self._options.moses_ini_out]
        if (folder := self._options.all_weights_out) is not None:
            names += [joined(folder, f"weights.{seed}") for seed in range(1, self._options.seeds + 1)]
        return [name for name in names if name is not None]

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Makes the folder, and raises before the search if a file cannot be written."""
        folder = self._options.all_weights_out
        with new_folder(folder) if folder is not None and not is_url(folder) else contextlib.nullcontext():
            for path in self.files:
                with open_output(path, keep=False):
                    pass
            yield

    def check(self, weights: dict[str, list[float]]) -> None:
        """Raises InputError before the search if the moses.ini lacks a feature."""
        if self._moses_ini:
            replace_moses_weights(self._moses_ini, weights, self._moses_ini_path)

    def write(self, tuning: Tuning) -> None:
        options = self._options
        texts: dict[FilePath, str] = {}
        if options.weights_out is not None:
            texts[options.weights_out] = _text(tuning, tuning.best)
        if options.moses_ini_out is not None:
            texts[options.moses_ini_out] = replace_moses_weights(
                self._moses_ini, tuning.best.weights, self._moses_ini_path
            )
        if options.all_weights_out is not None:
            folder = options.all_weights_out
            texts |= {joined(folder, f"weights.{tuned.seed}"): _text(tuning, tuned) for tuned in tuning.tuned}
        write_files({path: text.encode("utf-8", "surrogateescape") for path, text in texts.items()})


def _initial_weights(
    lists: NBestFeatures, weights: Weights, unlisted: Set[str], other_weights: Weights, path: FilePath | None
) -> Array:
    """Checks the initial weights against the features of the lists, and returns them as an array."""
    check_weights(other_weights)
    for name, values in {**weights, **other_weights}.items():
        length = lists.lengths.get(name)
        where = None if name in other_weights else path
        if length is None and any(values) and "_" not in name and name not in unlisted - other_weights.keys():
            found, expected = f"found weights of {shortened(name)}", "expected weights of features in the lists only"
            raise InputError(found, expected, "give lists with the feature, or the weight 0 to leave it out", where)
        if length is not None and length != len(values):
            raise InputError(
                f"found {counted(len(values), 'weights')} of {shortened(name)}",
                f"expected {length}, its number of values in the lists",
                "give the weights that belong to the lists",
                where,
            )
    return lists.to_array({**weights, **other_weights})


def _rounded(weights: Array) -> Array:
    """Scales weights so that their absolute values add up to 1, and rounds them as in the file that is written."""
    total = np.abs(weights).sum()
    return np.array([float(f"{value / total:.6g}") for value in weights]) if total > 0 else weights


def _text(tuning: Tuning, tuned: TunedWeights) -> str:
    return weights_text(
        tuned.weights, f"{tuning.algorithm}, seed {tuned.seed}: {tuning.metric} {tuned.score:.2f} on the lists"
    )
