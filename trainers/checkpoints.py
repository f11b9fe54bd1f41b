"""Saves the best model of a training run, and checkpoints from which it continues exactly if it is killed."""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np

from keras_encdec.backend.replicas import generator_state
from keras_encdec.backend.training_step import sync_training_state
from keras_encdec.errors import InputError
from keras_encdec.model_config import HISTORY, WEIGHTS, task_folder
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.pruning.pruning_masks import PruningMasks
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.progress import counted
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.resumption import PARTIAL, Progress, round_sums, save_model, without_averages
from keras_encdec.trainers.training_files import LAST

_LOCK = threading.RLock()


@contextlib.contextmanager
def building(seed: int | None = None) -> Iterator[None]:
    """Keeps other training runs in this process from building a model during the `with` block.

    Args:
        seed: int. Seed that is set for all random generators of the process before the block. Optional.
    """
    with _LOCK:
        if seed is not None:
            keras.utils.set_random_seed(seed)
        yield


VAL_PERPLEXITY = "val_perplexity"


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
        """Finds the best round. Among equals, it takes the one with the lowest held-out perplexity, or else the first.

        If weights are pruned gradually, it compares only the rounds with the largest pruned share.

        Example:

        >>> Monitor("val_bleu", higher_is_better=True).best([{"val_bleu": 30.1}, {"val_bleu": 31.5}])
        {'val_bleu': 31.5}
        >>> HELD_OUT_BLEU.best([{"val_bleu": 0.0, VAL_PERPLEXITY: 9.1}, {"val_bleu": 0.0, VAL_PERPLEXITY: 8.4}])
        {'val_bleu': 0.0, 'val_perplexity': 8.4}
        """
        share = max(past.get("pruned_share", 0) for past in rounds)
        rounds = [past for past in rounds if past.get("pruned_share", 0) == share]
        sign = -1 if self.higher_is_better else 1
        return min(rounds, key=lambda past: (sign * past[self.name], past.get(VAL_PERPLEXITY, math.inf)))


PERPLEXITY, HELD_OUT_PERPLEXITY = Monitor("perplexity"), Monitor(VAL_PERPLEXITY)
HELD_OUT_BLEU = Monitor("val_bleu", higher_is_better=True)


class StoppedInRound(Exception):
    """Ends `fit` without a validation, after a signal in the middle of a round; the checkpoint is saved."""


class Checkpoints(keras.callbacks.Callback):
    """Saves the best model, the history and a checkpoint after every round, and further checkpoints within rounds.

    A checkpoint is a single file with the model, its optimizer and all of `Progress`, so that its parts match whenever
    the process is killed. It is saved after every round, every few minutes and at a signal. A signal within a
    round ends the training at the next update without a validation; if there is no best model yet, the current model is
    saved in its place. Users read `history.json`; the training does not.

    Args:
        folder: path of the model directory.
        budget: Budget, for the number of updates, the time so far and signals.
        batch_size: int. Number of pairs per update.
        monitor: Monitor. Decides which model is the best. Defaults to the perplexity of the validation pairs.
        rounds: list of dict, the rounds before a resumption. Defaults to none.
        patience: int. Stop after this number of rounds without a better model. Defaults to `None`: never.
        patience_updates: float. Stop after this number of updates without a better model. Defaults to `None`: never.
        minutes: float. Maximum time between checkpoints. Defaults to no maximum.
        saved: function to call after each checkpoint is saved. Defaults to a function that does nothing.

    Attributes:
        folder: pathlib.Path.
        rounds: list of dicts from name to value, a dict for each round so far, as in `history.json`.

    Raises:
        InputError: if the training has diverged, and then nothing is saved; or if the disk is full.
        StoppedInRound: after a signal within a round.
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
        minutes: float = math.inf,
        saved: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.rounds = list(rounds)
        self._budget, self._batch_size, self._monitor = budget, batch_size, monitor
        self._patience, self._patience_updates = patience or math.inf, patience_updates or math.inf
        self._plain: keras.Model | None = None
        self._seconds_between, self._saved, self._call_saved = 60 * minutes, 0.0, saved
        self._writes = budget.replicas.is_chief
        for partial in self.folder.glob(f"{PARTIAL}*") if self._writes else ():
            partial.unlink()  # left by a killed process

    @property
    def best(self) -> dict[str, float]:
        """The round of the best model, after at least one round."""
        return self._monitor.best(self.rounds)

    @property
    def out_of_patience(self) -> bool:
        """Whether as many rounds or updates as the patience allows have passed since the best round."""
        rounds = without_averages(self.rounds)
        if not rounds:
            return False
        best = rounds.index(self._monitor.best(rounds))
        updates = rounds[-1]["updates"] - rounds[best]["updates"]
        return len(rounds) - 1 - best >= self._patience or updates >= self._patience_updates

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._saved = self._budget.clock

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if norms := GradientNorms.of(self.model.optimizer):
            norms.reset()  # Keras itself resets the metrics

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        budget = self._budget
        if budget.round_is_complete or budget.done >= 1.0:
            return  # the end of the round will be validated and saved
        if budget.signal or budget.clock - self._saved >= self._seconds_between:
            self._save_in_round()
        if budget.signal:
            if not self.rounds:
                self._save_best()
            raise StoppedInRound

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        now = self._record(logs, **self._gradients())
        name = next(name for name in (VAL_PERPLEXITY, "perplexity") if name in now)
        if not math.isfinite(now[name]):
            raise self._diverged(f"found the {name} {now[name]}", "expected a finite number")
        self._keep()
        if self.out_of_patience:
            self.model.stop_training = True

    def _diverged(self, found: str, expected: str) -> InputError:
        has_saved = (self.folder / LAST).exists()
        again = "continue from the last checkpoint with --resume and" if has_saved else "train again with"
        return InputError(
            f"{found} after {counted(self._budget.updates_done, 'updates')}",
            expected,
            f"the training diverged: {again} a lower --learning_rate",
            self.folder,
        )

    def _gradients(self) -> dict[str, float]:
        """Computes the mean norm of the round's gradients before clipping, and the share of clipped updates."""
        norms = GradientNorms.of(self.model.optimizer)
        if norms is None:
            return {}
        sync_training_state(self.model)
        norm, clipped = norms.totals
        updates = max(self._budget.updates_done - (int(self.rounds[-1]["updates"]) if self.rounds else 0), 1)
        measured = {"gradient_norm": norm / updates}
        if clipped is not None:
            measured["clipped_share"] = clipped / updates
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
        measured = {name: value for name, value in logs.items() if name not in ("loss", "val_loss")}
        done = self._budget.updates_done
        now = {
            "updates": done,
            "pairs": done * self._batch_size,
            # Rounded up, so that a run that ended at its limit of minutes shows no less than the limit.
            "seconds": math.ceil(1000 * self._budget.seconds) / 1000,
            "learning_rate": float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)),
            **more,
        }
        if masks := PruningMasks.of(self.model):
            now["pruned_share"] = masks.share
        self.rounds.append({**now, **{name: float(value) for name, value in measured.items()}})
        return self.rounds[-1]

    def _keep(self, weights: Sequence[np.ndarray] = ()) -> None:
        """Saves the end of a round."""
        if self.best is self.rounds[-1]:
            self._save_best(weights)
        self._save()
        if self._writes:
            self.write_history()

    def write_history(self) -> bool:
        """Writes `history.json`, unless it has all rounds; returns whether it was written."""
        path, content = self.folder / HISTORY, (json.dumps({"rounds": self.rounds}, indent=1) + "\n").encode()
        if path.exists() and path.read_bytes() == content:
            return False
        write_file(path, content)
        return True

    def _save_in_round(self) -> None:
        sync_training_state(self.model)
        sums = [float(keras.ops.convert_to_numpy(variable)) for variable in round_sums(self.model)]
        finite = all(bool(keras.ops.all(keras.ops.isfinite(weight))) for weight in self.model.weights)
        if not finite or not all(map(math.isfinite, sums)):
            raise self._diverged("found weights or sums that are infinite or not a number", "expected finite numbers")
        self._save(sums)

    def _save(self, sums: Sequence[float] = ()) -> None:
        budget = self._budget
        seconds = max([budget.seconds, *(past["seconds"] for past in self.rounds[-1:])])
        progress = Progress(
            self.rounds,
            budget.updates_done,
            seconds,
            budget.learning_rate,
            budget.factor,
            sums,
            generator_state(budget.replicas),
            masks.to_arrays() if (masks := PruningMasks.of(self.model)) else {},
        )
        self._write(self.folder, LAST, self.model, progress)
        self._saved = self._budget.clock
        if self._writes:
            self._call_saved()

    def _save_best(self, weights: Sequence[np.ndarray] = ()) -> None:
        """Saves the model of each task; that of the main task, the first, is in the model directory itself."""
        main, *others = self._without_optimizer(weights).task_models().items()
        for name, model in others:
            self._write(task_folder(self.folder, name), WEIGHTS, model)
        self._write(self.folder, WEIGHTS, main[1])

    def _write(self, folder: pathlib.Path, name: str, model: keras.Model, progress: Progress | None = None) -> None:
        if self._writes:
            with self._budget.replicas.alone():
                save_model(folder, name, model, progress)

    def _without_optimizer(self, weights: Sequence[np.ndarray] = ()) -> keras.Model:
        """Copies the weights to a model that was never compiled: its file is smaller, and loads on every backend."""
        if self._plain is None:
            with building():
                self._plain = type(self.model).from_config(self.model.get_config())
        self._plain.set_weights(weights or self.model.get_weights())
        return self._plain
