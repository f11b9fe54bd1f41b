"""Tunes the phrase-based decoder: rounds of translating sentences and tuning the weights on their n-best lists."""

import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Sequence

from keras_encdec import __version__
from keras_encdec.configuration import hyperparameter
from keras_encdec.formats import FilePath
from keras_encdec.formats.feature_weights import UNKNOWN_WORD_PENALTY, Weights, weights_text
from keras_encdec.formats.phrase_table import number_of_scores
from keras_encdec.runtime.files import check_can_be_read_again, check_lists, file_checksum, is_url, joined
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.progress import Progress, ShowProgress
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.settings_files import read_record, write_json
from keras_encdec.runtime.unfinished import new_folder
from keras_encdec.smt.decoder.decoding_options import DecodingOptions, initial_weights
from keras_encdec.smt.decoder.phrase_decoder import decode_nbest
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric, read_references
from keras_encdec.smt.tuning.nbest_features import read_nbest_features
from keras_encdec.smt.tuning.tune import TuningOptions, WeightSearchOptions, tune


@dataclasses.dataclass(frozen=True)
class DecoderTuningOptions(WeightSearchOptions):
    """Options of `tune_decoder`, apart from those of the decoder."""

    rounds: int = hyperparameter(
        8,
        "Maximum number of rounds, each of which translates the sentences. The weights are tuned between two rounds; "
        "with 1, the initial weights stay as they are.",
        minimum=1,
    )


@dataclasses.dataclass(frozen=True)
class TuningRound:
    """A round of `tune_decoder`.

    Attributes:
        number: int, from 1.
        weights: dict from feature to list of float. The weights that the sentences were translated with.
        score: float. The metric's score of the best translations, 0 to 100.
        nbest: pathlib.Path of the n-best list; if it is remote, its URL, a str.
        seconds: float. Duration of translating and of the search for the next weights.
    """

    number: int
    weights: dict[str, list[float]]
    score: float
    nbest: FilePath
    seconds: float

    def __str__(self) -> str:
        return f"round {self.number}: {self.score:.2f}, {self.seconds:.0f} s"


@dataclasses.dataclass(frozen=True)
class DecoderTuning:
    """The result of `tune_decoder`.

    Attributes:
        metric: str. Sacrebleu's name of the metric, such as "BLEU".
        rounds: tuple of TuningRound.
        is_converged: bool. Whether tuning ended because the last round had no new hypotheses.
    """

    metric: str
    rounds: tuple[TuningRound, ...]
    is_converged: bool

    @property
    def best(self) -> TuningRound:
        """The first round with the best score."""
        return max(self.rounds, key=lambda tuned: tuned.score)

    @property
    def weights(self) -> dict[str, list[float]]:
        """The weights of the best round."""
        return self.best.weights

    @property
    def nbest(self) -> FilePath:
        """The list of the best round."""
        return self.best.nbest

    @property
    def lists(self) -> tuple[FilePath, ...]:
        """The lists of all rounds."""
        return tuple(tuned.nbest for tuned in self.rounds)

    def __str__(self) -> str:
        end = ", no new hypotheses" if self.is_converged else ""
        return f"{self.metric} {self.best.score:.2f} in round {self.best.number} of {len(self.rounds)}{end}"


def tune_decoder(
    source: FilePath,
    references: Sequence[FilePath],
    phrase_table: FilePath,
    language_model: FilePath,
    output_dir: FilePath,
    weights: Weights | None = None,
    options: DecoderTuningOptions | None = None,
    decoding: DecodingOptions | None = None,
    *,
    report: Callable[[TuningRound], object] = lambda tuned: None,
    progress: ShowProgress = Progress,
    **values: object,
) -> DecoderTuning:
    """Tunes the weights of the phrase-based decoder, as Moses's `mert-moses.pl` does.

    Each round translates the sentences with the current weights. The next weights are tuned on the lists of all rounds
    so far. The tuning ends early when a list has no new hypotheses. The result is the weights of the round whose best
    translations score best.

    The directory contains the list and the weights of each round, `run1.nbest.gz` and `run1.weights`, and at the end
    the best weights, `weights`. Existing files are replaced, except for lists that an interrupted call made from the
    same files with the same settings and weights: `lists.json` records these.

    Args:
        source: sentences, one per line.
        references: files of their translations, one sentence per line.
        phrase_table, language_model: see `decode_nbest`.
        output_dir: directory or its URL, which is made if it is missing.
        weights: dict from feature to list of float, the initial weights. Defaults to `initial_weights`.
        options: DecoderTuningOptions. Defaults to `None`, MERT for BLEU in at most 8 rounds.
        decoding: DecodingOptions. Defaults to `None`: those of `encdec-decode`.
        report: function that is called with each TuningRound when it is done. Defaults to one that does nothing.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options of either kind by name, such as `rounds` or `pop_limit`, which override those given above.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used.
        ImportError: if sacrebleu is not installed.
        InputError: if a file cannot be read, or the files do not fit one another.

    Example:

        tuning = tune_decoder("val.en", ["val.fr"], "phrase-table.gz", "lm.arpa.gz", "tuned")
        decode_nbest("test.en", "phrase-table.gz", "lm.arpa.gz", "test.nbest.gz", tuning.weights)

    Reference:
        - Och, 2003, "Minimum Error Rate Training in Statistical Machine Translation" (P03-1021)
    """
    own = {field.name for field in dataclasses.fields(DecoderTuningOptions)}
    options = DecoderTuningOptions.combined(options, {name: values.pop(name) for name in own & values.keys()})
    decoding = DecodingOptions.combined(decoding, values)
    check_lists(references=references)
    for path in (source, *references, phrase_table):
        check_can_be_read_again(path)
    metric = CorpusMetric(options.metric, read_references(references, decoding.encoding), options.tokenize)
    if weights is None:
        weights = initial_weights(number_of_scores(phrase_table))
    initial = {name: [float(value) for value in numbers] for name, numbers in weights.items()}

    staged = StagedFolder(os.fspath(output_dir), existing=True, after_errors=True) if is_url(output_dir) else None

    def report_and_save(tuned: TuningRound) -> None:
        if staged:
            staged.upload_in_background()
        report(tuned)

    with staged or new_folder(output_dir) as folder:
        decoder = _RecordedDecoder(folder, (source, phrase_table, language_model), decoding, progress)
        rounds, is_converged = _tune_in_turns(decoder, references, metric, initial, options, report_and_save)
        tuning = DecoderTuning(metric.label, tuple(rounds), is_converged)
        _write(folder / "weights", tuning.weights, tuning.best.score)
    if staged:  # the lists are no longer on this machine
        uploaded = (joined(output_dir, os.path.basename(tuned.nbest)) for tuned in rounds)
        rounds = [dataclasses.replace(tuned, nbest=url) for tuned, url in zip(rounds, uploaded, strict=True)]
    return dataclasses.replace(tuning, rounds=tuple(rounds))


def _tune_in_turns(
    decoder: "_RecordedDecoder",
    references: Sequence[FilePath],
    metric: CorpusMetric,
    weights: dict[str, list[float]],
    options: DecoderTuningOptions,
    report: Callable[[TuningRound], object],
) -> tuple[list[TuningRound], bool]:
    """Returns the rounds, and whether the last round had no new hypotheses."""
    # The lists lack this feature, so its weight is not tuned.
    unknown = {name: weights.pop(name) for name in (UNKNOWN_WORD_PENALTY,) if name in weights}
    search = {field.name: getattr(options, field.name) for field in dataclasses.fields(WeightSearchOptions)}
    tuning_options = TuningOptions(**search, encoding=decoder.encoding)
    rounds: list[TuningRound] = []
    hypotheses, is_converged = 0, False
    while len(rounds) < options.rounds and not is_converged:
        start, decoded_with = time.monotonic(), {**weights, **unknown}
        nbest = decoder.nbest(len(rounds) + 1, decoded_with)
        features = read_nbest_features([nbest], references, metric, encoding=decoder.encoding)
        score = features.score(features.to_array(weights))
        _write(decoder.folder / f"run{len(rounds) + 1}.weights", decoded_with, score)
        if len(rounds) + 1 < options.rounds:
            lists = [*(earlier.nbest for earlier in rounds), nbest]
            tuning = tune(lists, references, options=tuning_options, other_weights=weights)
            weights = tuning.best.weights
            is_converged, hypotheses = tuning.hypotheses == hypotheses, tuning.hypotheses
        rounds.append(TuningRound(len(rounds) + 1, decoded_with, score, nbest, time.monotonic() - start))
        report(rounds[-1])
    return rounds, is_converged


class _RecordedDecoder:
    """Writes the list of each round unless it exists, and records the inputs, settings and weights of the lists."""

    def __init__(
        self,
        folder: pathlib.Path,
        files: tuple[FilePath, FilePath, FilePath],
        options: DecodingOptions,
        progress: ShowProgress,
    ) -> None:
        self.folder, self.encoding = folder, options.encoding
        self._files, self._options, self._progress = files, options, progress
        settings = {name: str(value) for name, value in options.output_settings.items()}
        checksums = [file_checksum(file) for file in files]
        self._made_with = {"made_by": __version__, "settings": settings, "inputs": checksums}
        record = read_record(self._record)
        is_same = {name: record.get(name) for name in self._made_with} == self._made_with
        weights = record.get("weights")
        self._weights: list[dict[str, list[float]]] = weights if is_same and isinstance(weights, list) else []

    @property
    def _record(self) -> pathlib.Path:
        return self.folder / "lists.json"

    def nbest(self, number: int, weights: dict[str, list[float]]) -> pathlib.Path:
        """Returns the path of the list of a round, numbered from 1, and makes the list unless it exists."""
        path = self.folder / f"run{number}.nbest.gz"
        if self._weights[number - 1 : number] != [weights] or not path.exists():
            # Before the list is replaced, so that the record never describes an incomplete list.
            self._weights = self._weights[: number - 1]
            if self._record.exists():
                self._record_weights(self._weights)
            decode_nbest(*self._files, path, weights, self._options, progress=self._progress)
            self._record_weights([*self._weights, weights])
        return path

    def _record_weights(self, weights: list[dict[str, list[float]]]) -> None:
        self._weights = weights
        write_json(self._record, {**self._made_with, "weights": weights})


def _write(path: pathlib.Path, weights: Weights, score: float) -> None:
    write_file(path, weights_text(weights, f"{score:.2f} on the sentences").encode("utf-8", "surrogateescape"))
