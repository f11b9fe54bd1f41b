"""The average of the weights after the last rounds of a training."""

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_encdec.backend.training_step import evaluation_batches
from keras_encdec.data import Batches
from keras_encdec.formats import open_output
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.validation import ValidationBleu

# The folder of the saved weights in the model directory.
ROUNDS = "rounds"


class RoundAverage(keras.callbacks.Callback):
    """Saves the weights after each round, and averages those of the last rounds.

    The weights are files in the model directory, so that a training that was killed can be resumed. This callback
    must come before `Checkpoints`: each round in the history then has its file.

    Args:
        folder: path of the model directory.
        budget: Budget, for the number of updates so far.
        number: int. Number of rounds to average over, or all rounds if there are fewer.
        rounds: list of dict, the rounds before, see `Checkpoints.rounds`. Defaults to none.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        budget: Budget,
        number: int,
        rounds: Sequence[dict[str, Any]] = (),
    ) -> None:
        super().__init__()
        self._folder, self._budget, self._number = pathlib.Path(folder) / ROUNDS, budget, number
        last_rounds = [past["updates"] for past in rounds if "averaged_rounds" not in past][-number:]
        for updates, path in self._files().items():
            if updates not in last_rounds:
                path.unlink()  # of an earlier round, or of one that was killed before it was in the history

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._folder.mkdir(exist_ok=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        with open_output(self._folder / f"{self._budget.updates_done}.npz") as file:
            # NumPy files have no bfloat16.
            np.savez(file, *(weight.astype(np.float32) for weight in self.model.get_weights()))
        files = self._files()
        for updates in sorted(files)[: -self._number]:
            files[updates].unlink()

    def mean(self) -> tuple[list[np.ndarray], int]:
        """The averaged weights, a list of arrays as `model.get_weights` returns it, and the number of rounds."""
        total, paths = None, list(self._files().values())
        for path in paths:
            with np.load(path) as file:
                weights = [file[name].astype(np.float64) for name in file.files]
            total = weights if total is None else [a + b for a, b in zip(total, weights, strict=True)]
        return [weight / len(paths) for weight in total], len(paths)

    @property
    def rounds(self) -> int:
        """Number of rounds whose weights are saved."""
        return len(self._files())

    def _files(self) -> dict[int, pathlib.Path]:
        """The saved weights of each round, by its number of updates."""
        return {int(path.stem): path for path in self._folder.glob("*.npz") if path.stem.isdecimal()}


def add_average(
    model: keras.Model,
    average: RoundAverage,
    validation: Batches,
    bleu: ValidationBleu | None,
    checkpoints: Checkpoints,
) -> None:
    """Validates the average of the last rounds, and saves it if it is the best model.

    Args:
        model: TranslationModel, compiled. It has its own weights again afterwards.
        average: of the rounds of the training.
        validation: batches to validate on.
        bleu: ValidationBleu of the model; `None` where BLEU is not measured.
        checkpoints: of the training; gets the average as one more round.
    """
    last_weights = model.get_weights()
    weights, number = average.mean()
    model.set_weights(weights)
    measured = model.evaluate(evaluation_batches(validation.once), verbose=0, return_dict=True)
    if bleu:
        measured["bleu"] = bleu.measure()
    model.set_weights(last_weights)
    checkpoints.add_average(model, weights, number, measured)
