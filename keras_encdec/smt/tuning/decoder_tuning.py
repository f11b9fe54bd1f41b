"""Tuning of the phrase-based decoder: sentences are translated, weights tuned on their lists, and so on in turns."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_encdec import __version__
from keras_encdec.configuration import ConfigurationError
from keras_encdec.formats import FilePath, open_output
from keras_encdec.formats.feature_weights import weights_text
from keras_encdec.formats.phrase_table import number_of_scores
from keras_encdec.runtime.files import file_checksum
from keras_encdec.runtime.settings_files import read_record, write_json
from keras_encdec.smt.decoder.phrase_decoder import decode_nbest
from keras_encdec.smt.decoder.phrase_options import initial_weights
from keras_encdec.smt.evaluation.corpus_metric import CorpusMetric, read_references
from keras_encdec.smt.tuning.nbest_features import read_nbest_features
from keras_encdec.smt.tuning.tune import made_directory, tune

ROUNDS = 8
_UNKNOWN = "UnknownWordPenalty0"


@dataclasses.dataclass(frozen=True)
class TuningRound:
    """What a round of `tune_decoder` has translated.

    Attributes:
        number: int, from 1.
        weights: dict of str to list of float. The weights that it translated with.
        score: float. The metric's score of its best translations, 0 to 100.
        nbest: path of its list.
        seconds: float. What translating and the search for the next weights took.
    """

    number: int
    weights: dict[str, list[float]]
    score: float
    nbest: pathlib.Path
    seconds: float

    def __str__(self) -> str:
        return f"round {self.number}: {self.score:.2f}, {self.seconds:.0f} s"


@dataclasses.dataclass(frozen=True)
class DecoderTuning:
    """What `tune_decoder` did.

    Attributes:
        metric: str. What sacrebleu calls it, such as "BLEU".
        rounds: tuple of TuningRound.
        is_converged: bool. Whether it ended as the last round had found no new hypotheses.
    """

    metric: str
    rounds: tuple[TuningRound, ...]
    is_converged: bool

    @property
    def best(self) -> TuningRound:
        """The first round with the best score."""
        return max(self.rounds, key=lambda one: one.score)

    @property
    def weights(self) -> dict[str, list[float]]:
        """The weights of the best round."""
        return self.best.weights

    @property
    def nbest(self) -> pathlib.Path:
        """The list of the best round."""
        return self.best.nbest

    @property
    def lists(self) -> tuple[pathlib.Path, ...]:
        """The lists of all rounds."""
        return tuple(one.nbest for one in self.rounds)

    def __str__(self) -> str:
        end = ", no new hypotheses" if self.is_converged else ""
        return f"{self.metric} {self.best.score:.2f} in round {self.best.number} of {len(self.rounds)}{end}"


def tune_decoder(
    source: FilePath,
    references: Sequence[FilePath],
    phrase_table: FilePath,
    language_model: FilePath,
    output_dir: FilePath,
    weights: Mapping[str, Sequence[float]] | None = None,
    *,
    rounds: int = ROUNDS,
    algorithm: str = "mert",
    metric: str = "bleu",
    seeds: Sequence[int] = (1,),
    tokenize: str = "none",
    report: Callable[[TuningRound], object] = lambda tuned: None,
    **decoding: Any,
) -> DecoderTuning:
    """Tunes the weights of the phrase-based decoder, as Moses's `mert-moses.pl` does.

    Each round translates the sentences with the weights of the round before and then tunes them on the lists of all
    rounds so far. It ends early when a list has nothing new. The weights are those of the round whose own best
    translations have the best score.

    The directory has of each round the list, `run1.nbest.gz`, and its weights, `run1.weights`, and in the end the best
    ones, `weights`. Files of the same names are replaced, but for lists that an earlier call made of the same files
    with the same settings and weights, as after an interruption: `lists.json` says what they were made with.

    Args:
        source: sentences, one a line.
        references: files of their translations, a sentence a line.
        phrase_table, language_model: see `decode_nbest`.
        output_dir: directory; it is made where it is missing.
        weights: dict of feature to list of float, to begin with. Defaults to `initial_weights`.
        rounds: int. Most translations of the sentences. The weights are tuned between two of them; with 1, the weights
            to begin with stay as they are. Defaults to `8`.
        algorithm, metric, seeds, tokenize: see `tune`.
        report: callable of each TuningRound when it is done. Defaults to nothing.
        **decoding: further arguments of `decode_nbest`, such as `pop_limit` and `number_of_processes`.

    Returns:
        DecoderTuning.

    Raises:
        ConfigurationError: a ValueError, for arguments that cannot be used.
        ImportError: when sacrebleu is not installed.
        InputError: when a file cannot be read, or the files do not fit one another.

    Example:

        tuning = tune_decoder("val.en", ["val.fr"], "phrase-table.gz", "lm.arpa.gz", "tuned")
        decode_nbest("test.en", "phrase-table.gz", "lm.arpa.gz", "test.nbest.gz", tuning.weights)

    Reference:
        - Och, 2003, "Minimum Error Rate Training in Statistical Machine Translation" (P03-1021)
    """
    if rounds < 1:
        raise ConfigurationError("found {rounds}=%s, expected 1 or more", rounds)
    encoding = decoding.get("encoding")
    corpus_metric = CorpusMetric(metric, read_references(references, encoding), tokenize)
    if weights is None:
        weights = initial_weights(number_of_scores(phrase_table))
    current = {name: [float(value) for value in values] for name, values in weights.items()}
    unlisted = {name: current.pop(name) for name in (_UNKNOWN,) if name in current}
    folder = made_directory(output_dir)
    decoder = _RecordedDecoder(folder, (source, phrase_table, language_model), decoding)
    done: list[TuningRound] = []
    hypotheses, is_converged = 0, False
    for number in range(1, rounds + 1):
        start, decoded_with = time.monotonic(), {**current, **unlisted}
        nbest = decoder.nbest(number, decoded_with)
        features = read_nbest_features([nbest], references, corpus_metric, encoding=encoding)
        score = features.score(features.to_array(current))
        _write(folder / f"run{number}.weights", decoded_with, score)
        if number < rounds:
            lists = [*(one.nbest for one in done), nbest]
            tuning = tune(
                lists,
                references,
                algorithm=algorithm,
                metric=metric,
                seeds=seeds,
                other_weights=current,
                tokenize=tokenize,
                encoding=encoding,
            )
            current = tuning.best.weights
            is_converged, hypotheses = tuning.hypotheses == hypotheses, tuning.hypotheses
        done.append(TuningRound(number, decoded_with, score, nbest, time.monotonic() - start))
        report(done[-1])
        if is_converged:
            break
    result = DecoderTuning(corpus_metric.label, tuple(done), is_converged)
    _write(folder / "weights", result.weights, result.best.score)
    return result


class _RecordedDecoder:
    """Writes the list of each round, if it is not there, and keeps a record of what each was made with.

    Args:
        folder: directory of the lists and the record.
        files: the sentences, the phrase table and the language model.
        options: further arguments of `decode_nbest`.
    """

    def __init__(self, folder: pathlib.Path, files: Sequence[FilePath], options: Mapping[str, Any]) -> None:
        self._folder, self._files, self._options = folder, files, options
        settings = {name: str(options[name]) for name in sorted({*options} - {"number_of_processes", "progress"})}
        checksums = [file_checksum(file) for file in files]
        self._made_with = {"made_by": __version__, "settings": settings, "inputs": checksums}
        record = read_record(self._record)
        is_same = {name: record.get(name) for name in self._made_with} == self._made_with
        self._weights = list(record.get("weights", ())) if is_same else []

    @property
    def _record(self):
        return self._folder / "lists.json"

    def nbest(self, number: int, weights: dict[str, list[float]]) -> pathlib.Path:
        """The list of a round, by its number from 1 and its weights."""
        path = self._folder / f"run{number}.nbest.gz"
        if self._weights[number - 1 : number] != [weights] or not path.exists():
            # The record never tells of a list that is being replaced.
            self._record_weights(self._weights[: number - 1])
            decode_nbest(*self._files, path, weights, **self._options)
            self._record_weights([*self._weights, weights])
        return path

    def _record_weights(self, weights):
        self._weights = weights
        write_json(self._record, {**self._made_with, "weights": weights})


def _write(path: pathlib.Path, weights: Mapping[str, Sequence[float]], score: float) -> None:
    with open_output(path) as file:
        file.write(weights_text(weights, f"{score:.2f} on the sentences").encode("utf-8", "surrogateescape"))
