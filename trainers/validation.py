"""Measures BLEU of the validation pairs, and averages the weights of the last rounds."""

import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np

from keras_encdec.backend.replicas import Replicas
from keras_encdec.backend.training_step import evaluation_batches
from keras_encdec.data import Batches
from keras_encdec.decoding import Generator
from keras_encdec.formats import open_output
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.pruning.pruning_masks import PruningMasks
from keras_encdec.runtime.imports import import_sacrebleu
from keras_encdec.text.vocabulary import END, FIRST_WORD, PADDING, UNKNOWN
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints, building
from keras_encdec.trainers.resumption import flush_to_disk

WITHOUT = ", or train without --validation_bleu"


class ValidationBleu(keras.callbacks.Callback):
    """Adds "val_bleu" to the measurements after each round: corpus BLEU of greedy translations, 0 to 100.

    Words are compared by their ids, in the tokenization of the training text. An unknown word of a reference matches
    no word of a translation, unless the model spells it: then it is compared by its characters. This callback must come
    before all callbacks that read the measurements. The search is compiled in the first round only.

    Args:
        model: the TranslationModel that is trained; it must have a source.
        batches: iterable of dicts "source" and "target", integer arrays `(pairs, time)`: the validation pairs, with ids
            for rare words, see `PreparedPairs.padded`.
        spellings: dict of the spellings of the rare words of "source" and "target", on the sides where the model has
            characters. Defaults to none.

    Raises:
        ImportError: when sacrebleu is not installed.
    """

    def __init__(
        self,
        model: TranslationModel,
        batches: Iterable[Mapping[str, np.ndarray]],
        spellings: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        self._corpus_bleu = import_sacrebleu(WITHOUT).corpus_bleu
        with building():
            self._generator = Generator(model)
        self._spellings, first_rare = spellings or {}, model.target_words + FIRST_WORD
        self._sources, self._references = [], []
        for batch in batches:
            self._sources.extend(batch["source"])
            for target in batch["target"]:
                rare = [self._spellings["target"][i - first_rare] for i in target[target >= first_rare]]
                known = np.where(target >= first_rare, UNKNOWN, target)
                self._references.append(_text(known.tolist(), rare, "unknown"))

    def measure(self) -> float:
        """Computes BLEU with the current weights of the model."""
        hypotheses = self._generator.generate(self._sources, spellings=self._spellings.get("source"))
        translations = [_text(best.ids, best.spellings) for best, *_ in hypotheses]
        return self._corpus_bleu(translations, [self._references], tokenize="none", force=True).score

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        if math.isfinite(logs["val_perplexity"]):  # a diverged model cannot generate
            logs["val_bleu"] = self.measure()


def _text(ids: Iterable[int], spellings: Iterable[Sequence[int]], unknown: str = str(UNKNOWN)) -> str:
    """Writes ids as words separated by spaces, without padding and the end of sequence.

    An unknown word is written as the ids of its characters if it is spelt.
    """
    spelt = ("-".join(str(i) for i in spelling if i not in (PADDING, END)) + "-" for spelling in spellings)
    return " ".join(next(spelt, unknown) if i == UNKNOWN else str(i) for i in ids if i not in (PADDING, END))


# The folder of the saved weights in the model directory.
ROUNDS = "rounds"


class RoundAverage(keras.callbacks.Callback):
    """Saves the weights after each round, and averages those of the last rounds.

    The weights are saved in the model directory, so that a killed training can be resumed. This callback must come
    before `Checkpoints`, so that each round in the history has its file. It keeps the file of one more round than it
    averages, because a training may be resumed from the checkpoint before the last one.

    Args:
        folder: path of the model directory.
        budget: Budget, for the number of updates so far.
        number: int. Number of last rounds to average; all rounds if there are fewer.
        rounds: list of dict, the rounds before a resumption, see `Checkpoints.rounds`. Defaults to none.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        budget: Budget,
        number: int,
        rounds: Sequence[dict[str, float]] = (),
    ) -> None:
        super().__init__()
        self._folder, self._budget, self._number = pathlib.Path(folder) / ROUNDS, budget, number
        last_rounds = [past["updates"] for past in rounds if "averaged_rounds" not in past][-number - 1 :]
        for path in self._files() if budget.devices.is_chief else ():
            if int(path.stem) not in last_rounds:
                path.unlink()  # an earlier round, or a round that is not in the history because the process was killed

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if self.devices.is_chief:
            self._folder.mkdir(exist_ok=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if not self._budget.devices.is_chief:
            return
        with open_output(self._folder / f"{self._budget.updates_done}.npz") as file:
            # NumPy files have no bfloat16.
            np.savez(file, *(weight.astype(np.float32) for weight in self.model.get_weights()))
        flush_to_disk(self._folder)
        for path in self._files()[: -self._number - 1]:
            path.unlink()

    def mean(self) -> tuple[list[np.ndarray], int]:
        """Averages the saved weights.

        Returns:
            tuple: list of arrays, as `model.get_weights` returns; int, the number of rounds.
        """
        self._budget.devices.wait()  # for the files of the last round
        paths = self._files()[-self._number :]
        total: list[np.ndarray] = []
        for path in paths:
            with np.load(path) as file:
                weights = [file[name].astype(np.float64) for name in file.files]
            total = [a + b for a, b in zip(total, weights, strict=True)] if total else weights
        return [weight / len(paths) for weight in total], len(paths)

    @property
    def devices(self) -> Replicas:
        """The devices that share the training."""
        return self._budget.devices

    @property
    def has_rounds(self) -> bool:
        """Whether the weights of any round are saved."""
        return bool(self._files())

    def _files(self) -> list[pathlib.Path]:
        """Lists the files with the weights of a round, in the order of the rounds."""
        paths = (path for path in self._folder.glob("*.npz") if path.stem.isdecimal())
        return sorted(paths, key=lambda path: int(path.stem))


def add_average(
    model: keras.Model,
    average: RoundAverage,
    validation: Batches,
    bleu: ValidationBleu | None,
    checkpoints: Checkpoints,
) -> None:
    """Validates the average of the last rounds, and saves it if it is the best model.

    Args:
        model: TranslationModel, compiled. Its own weights are restored afterwards.
        average: RoundAverage of the training.
        validation: Batches to validate on.
        bleu: ValidationBleu of the model; `None` if BLEU is not measured.
        checkpoints: Checkpoints of the training, which get the average as another round.
    """
    last_weights = model.get_weights()
    weights, number = average.mean()
    if masks := PruningMasks.of(model):
        weights = masks.applied(weights)
    model.set_weights(weights)
    batches = evaluation_batches(lambda: list(map(average.devices.part, validation.once())))
    measured = model.evaluate(batches, verbose=0, return_dict=True)
    if bleu:
        measured["bleu"] = bleu.measure()
    model.set_weights(last_weights)
    checkpoints.add_average(model, weights, number, measured)
