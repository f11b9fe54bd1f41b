"""The best and the last model of a training, kept so that a killed process loses at most a round."""

import json
import os
import pathlib

import keras

from keras_encdec.errors import InputError
from keras_encdec.formats import open_output
from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.scoring.model_directory import WEIGHTS, load_model

LAST, HISTORY = "last.keras", "history.json"


class Checkpoints(keras.callbacks.Callback):
    """Keeps after every round the history, the last model with its optimizer, and the best model.

    The history is written first: what it has beyond the last model, after a kill between the two, is
    cut off at resumption, and the round is made again.

    Args:
        folder: path of the model directory.
        budget: Budget, for the updates and seconds so far.
        batch_size: int.
        monitor: str. The value that decides which model is best: the lower.
        rounds: list of dict, the history before. Defaults to none.
        patience: int. Stop after so many rounds that were not the best. Defaults to `None`: never.
    """

    def __init__(self, folder, budget, batch_size, monitor="val_perplexity", rounds=(), patience=None):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.rounds = list(rounds)
        self._budget, self._batch_size, self._monitor, self._patience = budget, batch_size, monitor, patience
        self._plain = None

    @property
    def best(self):
        """The round of the best model, a dict; `None` before the first."""
        return min(self.rounds, key=lambda one: one[self._monitor], default=None)

    def on_epoch_end(self, epoch, logs=None):
        done = self._budget.updates_done
        measured = {name: value for name, value in logs.items() if name.startswith("val_") or name != "loss"}
        measured.pop("val_loss", None)
        rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        now = {
            "updates": done,
            "pairs": done * self._batch_size,
            "seconds": round(self._budget.seconds, 1),
            "learning_rate": rate,
        }
        self.rounds.append({**now, **{name: float(value) for name, value in measured.items()}})
        if self.best is self.rounds[-1]:
            self._save(self._without_optimizer(), WEIGHTS)
        with open_output(self.folder / HISTORY) as file:
            file.write((json.dumps({"rounds": self.rounds}, indent=1) + "\n").encode())
        self._save(self.model, LAST)
        if self._patience and len(self.rounds) - 1 - self.rounds.index(self.best) >= self._patience:
            self.model.stop_training = True

    def _without_optimizer(self):
        """The same weights in a model that was never compiled: a third of the size, and any backend's."""
        if self._plain is None:
            self._plain = RNNEncoderDecoder.from_config(self.model.get_config())
        self._plain.set_weights(self.model.get_weights())
        return self._plain

    def _save(self, model, name):
        partial = self.folder / f".partial-{name}"
        try:
            model.save(partial)
            os.replace(partial, self.folder / name)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise InputError(
                f"could not be written ({error.strerror or error})", remedy="free space, then go on with --resume",
                path=self.folder / name,
            ) from error  # fmt: skip


def load_checkpoint(folder):
    """The last model of a training, compiled as it was, and the history up to it.

    Returns:
        tuple: RNNEncoderDecoder and list of rounds.

    Raises:
        InputError: when there is no checkpoint, or it does not load.
    """
    folder = pathlib.Path(folder)
    model = load_model(folder / LAST, compiled=True)
    updates = int(keras.ops.convert_to_numpy(model.optimizer.iterations))
    rounds = json.loads((folder / HISTORY).read_text(encoding="utf-8"))["rounds"]
    return model, [one for one in rounds if one["updates"] <= updates]
