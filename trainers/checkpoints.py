"""Saves the best and the last model of a training after each round: a killed process loses at most a round."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_encdec.backend.random import generator_state
from keras_encdec.backend.training_step import sync_training_state
from keras_encdec.errors import InputError
from keras_encdec.formats import open_output
from keras_encdec.model_config import WEIGHTS
from keras_encdec.model_directory import load_model, replace_weights
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.runtime.unfinished import unfinished
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.preparation import PREPARED
from keras_encdec.trainers.training_result import TrainingRound

_LOCK = threading.RLock()


@contextlib.contextmanager
def building(seed: int | None = None) -> Iterator[None]:
    """Keeps other trainings in this process from building a model during the `with` block.

    Args:
        seed: int. Seed that is set for all random generators of the process before the block. Optional.
    """
    with _LOCK:
        if seed is not None:
            keras.utils.set_random_seed(seed)
        yield


HELD_OUT = "val_perplexity"


@dataclasses.dataclass(frozen=True)
class Monitor:
    """The measurement that decides which round is the best.

    Attributes:
        name: str. Its name in `history.json`.
        higher_is_better: bool. Defaults to `False`.
    """

    name: str
    higher_is_better: bool = False

    def best(self, rounds: Sequence[dict[str, float]]) -> dict[str, float]:
        """Finds the best of the rounds. Of equal ones it is that of the lowest held-out perplexity, or else the first.

        Example:

        >>> Monitor("val_bleu", higher_is_better=True).best([{"val_bleu": 30.1}, {"val_bleu": 31.5}])
        {'val_bleu': 31.5}
        >>> HELD_OUT_BLEU.best([{"val_bleu": 0.0, HELD_OUT: 9.1}, {"val_bleu": 0.0, HELD_OUT: 8.4}])
        {'val_bleu': 0.0, 'val_perplexity': 8.4}
        """
        sign = -1 if self.higher_is_better else 1
        return min(rounds, key=lambda past: (sign * past[self.name], past.get(HELD_OUT, math.inf)))


PERPLEXITY, HELD_OUT_PERPLEXITY = Monitor("perplexity"), Monitor(HELD_OUT)
HELD_OUT_BLEU = Monitor("val_bleu", higher_is_better=True)


LAST, HISTORY = "last.keras", "history.json"
GENERATOR = "generator.npz"
PARTIAL = ".partial-"


class Checkpoints(keras.callbacks.Callback):
    """Saves the history, the last model with its optimizer, and the best model after every round.

    The file of the last model also contains the history up to this model, so that the two match even if the process is
    killed between writing two files. It also contains the state of the random generator that dropout uses. Users read
    `history.json`; the training does not.

    Args:
        folder: path of the model directory.
        budget: Budget, for the number of updates and the time so far.
        batch_size: int. Number of pairs per update.
        monitor: Monitor. Decides which model is the best. Defaults to the perplexity of the validation pairs.
        rounds: list of dict, the rounds before a resumption. Defaults to none.
        patience: int. Stop after this number of rounds without a better model. Defaults to `None`: never.
        patience_updates: float. Stop after this number of updates without a better model. Defaults to `None`: never.

    Attributes:
        folder: pathlib.Path.
        rounds: list of dict of name to value, a dict for each round so far, as in `history.json`.

    Raises:
        InputError: when the training diverged in a round, which is then not saved; when the disk is full.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        budget: Budget,
        batch_size: int,
        monitor: Monitor = HELD_OUT_PERPLEXITY,
        rounds: Sequence[dict[str, float]] = (),
        patience: int | None = None,
        patience_updates: float | None = None,
    ) -> None:
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.rounds = list(rounds)
        self._budget, self._batch_size, self._monitor = budget, batch_size, monitor
        self._patience, self._patience_updates = patience or math.inf, patience_updates or math.inf
        self._plain: keras.Model | None = None
        self._gradients_before = (budget.updates_done, 0.0, 0.0)
        for partial in self.folder.glob(f"{PARTIAL}*"):
            partial.unlink()  # left by a killed process

    @property
    def best(self) -> dict[str, float]:
        """The round of the best model. There is none before the first round."""
        return self._monitor.best(self.rounds)

    @property
    def out_of_patience(self) -> bool:
        """Whether more rounds or updates have passed since the best round than the patience allows."""
        rounds = [past for past in self.rounds if "averaged_rounds" not in past]
        if not rounds:
            return False
        best = rounds.index(self._monitor.best(rounds))
        updates = rounds[-1]["updates"] - rounds[best]["updates"]
        return len(rounds) - 1 - best >= self._patience or updates >= self._patience_updates

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        now = self._record(logs, **self._gradients())
        name = next(name for name in ("val_perplexity", "perplexity") if name in now)
        if not math.isfinite(now[name]):
            again = "continue from the previous round with --resume and" if len(self.rounds) > 1 else "train again with"
            raise InputError(
                f"found the {name} {now[name]} after {now['updates']:,} updates",
                "expected a finite number",
                f"the training diverged: {again} a lower --learning_rate",
                self.folder,
            )
        self._keep()
        if self.out_of_patience:
            self.model.stop_training = True

    def _gradients(self) -> dict[str, float]:
        """Computes the mean norm of the round's gradients before clipping, and the share of clipped updates."""
        norms = GradientNorms.of(self.model.optimizer)
        if norms is None:
            return {}
        sync_training_state(self.model)
        updates_before, norm_before, clipped_before = self._gradients_before
        norm, clipped = norms.totals
        self._gradients_before = self._budget.updates_done, norm, clipped or 0.0
        updates = max(self._budget.updates_done - updates_before, 1)
        measured = {"gradient_norm": (norm - norm_before) / updates}
        if clipped is not None:
            measured["clipped_share"] = (clipped - clipped_before) / updates
        return measured

    def add_average(
        self, model: keras.Model, weights: Sequence[np.ndarray], number: int, measured: Mapping[str, float]
    ) -> None:
        """Adds an average of rounds to the history as another round, which may be the best.

        Args:
            model: the model that was trained.
            weights: list of arrays, its averaged weights.
            number: int. Number of rounds that are averaged.
            measured: dict, the result of `model.evaluate` with these weights.
        """
        self.set_model(model)
        self._record({f"val_{name}": value for name, value in measured.items()}, averaged_rounds=number)
        self._keep(weights)

    def _record(self, logs: Mapping[str, float], **more: float) -> dict[str, float]:
        """Adds a round to the history."""
        measured = {name: value for name, value in logs.items() if name.startswith("val_") or name != "loss"}
        measured.pop("val_loss", None)
        done = self._budget.updates_done
        now = {
            "updates": done,
            "pairs": done * self._batch_size,
            # Rounded up: a training of some minutes that came to its end has taken no less.
            "seconds": math.ceil(1000 * self._budget.seconds) / 1000,
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            **more,
        }
        self.rounds.append({**now, **{name: float(value) for name, value in measured.items()}})
        return self.rounds[-1]

    def _keep(self, weights: Sequence[np.ndarray] = ()) -> None:
        if self.best is self.rounds[-1]:
            self._save(self._without_optimizer(weights), WEIGHTS)
        history = json.dumps({"rounds": self.rounds}, indent=1) + "\n"
        self._save(self.model, LAST, history)
        with open_output(self.folder / HISTORY) as file:
            file.write(history.encode())

    def _without_optimizer(self, weights: Sequence[np.ndarray]) -> keras.Model:
        """Copies the weights to a model that was never compiled: its file is smaller, and loads on every backend."""
        if self._plain is None:
            with building():
                self._plain = type(self.model).from_config(self.model.get_config())
        self._plain.set_weights(weights or self.model.get_weights())
        return self._plain

    def _save(self, model: keras.Model, name: str, history: str | None = None) -> None:
        partial = self.folder / f"{PARTIAL}{name}"
        try:
            with unfinished(partial):
                model.save(partial)
                if history:
                    with zipfile.ZipFile(partial, "a") as archive:
                        archive.writestr(HISTORY, history)
                        arrays: Mapping[str, Any] = generator_state()
                        with archive.open(GENERATOR, "w") as file:
                            np.savez(file, **arrays)
                if name == WEIGHTS:
                    replace_weights(self.folder, partial)
                else:
                    os.replace(partial, self.folder / name)
        except OSError as error:
            again = "continue with --resume" if (self.folder / LAST).exists() else "train again"
            raise InputError(
                f"could not be written ({error.strerror or error})",
                remedy=f"free space, then {again}",
                path=self.folder / name,
            ) from error
        finally:
            partial.unlink(missing_ok=True)


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder contains a training that can be resumed.

    Raises:
        InputError: when there is a model of a training without its last checkpoint.
    """
    folder = pathlib.Path(folder)
    if (folder / LAST).exists():
        return True
    # A training that was killed within its first round has prepared pairs but no history. A model directory that was
    # copied for scoring has neither.
    if (folder / WEIGHTS).exists() and ((folder / HISTORY).exists() or not (folder / PREPARED).exists()):
        raise InputError(
            f"found {WEIGHTS} and no {LAST}",
            f"expected {LAST} to resume the training, or no model",
            f"restore {LAST}, or give another --model_dir",
            folder,
        )
    return False


def load_checkpoint(
    folder: str | os.PathLike[str],
) -> tuple[keras.Model, list[dict[str, float]], dict[str, np.ndarray]]:
    """Loads the last model of a training, compiled as before, with the history up to it.

    Returns:
        tuple: TranslationModel; list of rounds; dict, the state of the random generator for `set_generator_state`,
        empty if the checkpoint has none.

    Raises:
        InputError: when there is no checkpoint, or it cannot be loaded.
    """
    path = pathlib.Path(folder) / LAST
    model = load_model(path, compiled=True)
    with zipfile.ZipFile(path) as archive:
        if HISTORY not in archive.namelist():
            raise InputError(
                "found no history of the training in it",
                "expected a checkpoint of encdec-train",
                "restore the file, or train again",
                path,
            )
        try:
            rounds, generator = _read_rounds(archive.read(HISTORY)), {}
            if GENERATOR in archive.namelist():
                with archive.open(GENERATOR) as file, np.load(file) as arrays:
                    generator = dict(arrays)
        except (ValueError, TypeError, EOFError, RecursionError, zipfile.BadZipFile) as error:
            raise InputError(
                f"found an invalid history or generator state in it ({error})",
                "expected a checkpoint of encdec-train",
                "restore the file, or train again",
                path,
            ) from error
    return model, rounds, generator


def _read_rounds(text: bytes) -> list[dict[str, float]]:
    """Parses the rounds of a history. Raises ValueError or TypeError for any other text."""
    history = json.loads(text)
    rounds = history.get("rounds") if isinstance(history, dict) else None
    if not isinstance(rounds, list) or not rounds:
        raise ValueError("it has no rounds")
    for entry in rounds:
        if not isinstance(entry, dict):
            raise ValueError(f"a round is {entry!r}")
        TrainingRound.from_dict(entry)  # raises for a round that lacks a required value
        if type(entry["updates"]) is not int or not all(map(math.isfinite, entry.values())):
            raise ValueError(f"a round is {entry}")
    return rounds
