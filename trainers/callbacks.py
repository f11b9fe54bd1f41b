"""Callbacks that measure BLEU after each round, average the last rounds, and report the progress of training."""

import math
import os
import pathlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import keras
import numpy as np

from keras_encdec.backend.replicas import Compilation, generator_state, set_generator_state
from keras_encdec.backend.training_step import evaluation_batches
from keras_encdec.data import Batches
from keras_encdec.decoding import Generator
from keras_encdec.errors import InputError
from keras_encdec.formats import open_output
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.pruning.pruning_masks import PruningMasks
from keras_encdec.runtime.files import flush_to_disk
from keras_encdec.runtime.imports import import_sacrebleu
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.text.vocabulary import END, FIRST_WORD, PADDING, UNKNOWN
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints, building
from keras_encdec.trainers.reporting import TrainingReporter, TrainingRound
from keras_encdec.trainers.resumption import without_averages

# The end of the error when sacrebleu is missing: what the user may do instead of installing it.
BLEU_ALTERNATIVE = ", or train without --validation_bleu"


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
        ImportError: if sacrebleu is not installed.
    """

    def __init__(
        self,
        model: TranslationModel,
        batches: Iterable[Mapping[str, np.ndarray]],
        spellings: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        self._corpus_bleu = import_sacrebleu(BLEU_ALTERNATIVE).corpus_bleu
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

    An unknown word is written as the ids of its characters if it is spelled.
    """
    spelled = ("-".join(str(i) for i in spelling if i not in (PADDING, END)) + "-" for spelling in spellings)
    return " ".join(next(spelled, unknown) if i == UNKNOWN else str(i) for i in ids if i not in (PADDING, END))


# The folder of the saved weights in the model directory.
ROUNDS = "rounds"


class RoundAverage(keras.callbacks.Callback):
    """Saves the weights after each round, and averages those of the last rounds.

    The weights are saved in the model directory, so that a killed run can be resumed. This callback must come before
    `Checkpoints`, so that each round in the history has its file. It keeps one file more than it averages: if the last
    checkpoint is damaged, the training resumes from the one before it, which may be a round older.

    Args:
        folder: path of the model directory.
        budget: Budget, for the number of updates so far.
        number: int. Number of last rounds to average; all rounds if there are fewer.
        rounds: list of dict, the rounds before a resumption, see `Checkpoints.rounds`. Defaults to none.
    """

    def __init__(
        self, folder: str | os.PathLike[str], budget: Budget, number: int, rounds: Sequence[dict[str, float]] = ()
    ) -> None:
        super().__init__()
        self._folder, self._budget, self._number = pathlib.Path(folder) / ROUNDS, budget, number
        last_rounds = [past["updates"] for past in without_averages(rounds)][-number - 1 :]
        self.replicas = budget.replicas
        for path in self._files() if self.replicas.is_chief else ():
            if int(path.stem) not in last_rounds:
                path.unlink()  # an earlier round, or a round that is not in the history because the process was killed

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        if self.replicas.is_chief:
            self._folder.mkdir(exist_ok=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if not self.replicas.is_chief:
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

        Raises:
            InputError: if the weights of a round are damaged.
        """
        self.replicas.wait()  # for the files of the last round
        paths = self._files()[-self._number :]
        total: list[np.ndarray] = []
        for path in paths:
            try:
                with np.load(path) as file:
                    weights = [file[name].astype(np.float64) for name in file.files]
            except Exception as error:  # zip and NumPy raise many kinds of errors for other bytes
                expected = "expected the weights of a round"
                remedy = "remove it, and continue with --resume, which averages the other rounds"
                raise InputError(f"found a file that cannot be loaded ({error})", expected, remedy, path) from error
            total = [a + b for a, b in zip(total, weights, strict=True)] if total else weights
        return [weight / len(paths) for weight in total], len(paths)

    def check_saved(self) -> None:
        """Raises InputError unless the weights of at least one round are saved."""
        if not self._files():
            expected = "expected saved rounds to average"
            remedy = "drop --average_rounds, or raise --updates, --epochs or --minutes"
            raise InputError("found a run that has ended and saved no rounds", expected, remedy, self._folder.parent)

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
    batches = evaluation_batches(list(map(average.replicas.part, validation.once())))
    generator = generator_state(average.replicas)  # PyTorch draws from it when it begins to read the batches
    measured = model.evaluate(batches, verbose=0, return_dict=True)
    if bleu:
        measured["bleu"] = bleu.measure()
    set_generator_state(generator, average.replicas)  # so that a run that continues from here draws the same
    model.set_weights(last_weights)
    checkpoints.add_average(model, weights, number, measured)


class ProgressUpdates(keras.callbacks.Callback):
    """Keeps the record of a training run up to date.

    Args:
        record: ProgressRecord.
        budget: Budget, which must come before this one in the list of callbacks.
    """

    def __init__(self, record: ProgressRecord, budget: Budget) -> None:
        super().__init__()
        self._record, self._budget = record, budget

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._record.begin("updates", self._budget.updates_done, self._budget.done)

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._record.update(self._budget.updates_done, share=self._budget.done or None)

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        if self._budget.signal is not None:
            self._record.fail(f"stopped by signal {self._budget.signal}; --resume continues the training")


class UpdateReports(keras.callbacks.Callback):
    """Reports the progress until the first round has ended, even while a training step is being compiled.

    It is a context manager: within the `with` block, a thread reports compiling, updates and validations that take
    long.

    Args:
        reporter: TrainingReporter.
        budget: Budget, which must come before this one in the list of callbacks.
        batch_size: int. Number of pairs per update.
        compilation: Compilation, whose shapes the reporter announces. An update that compiles is reported as such.
        pause: float. Seconds between reports. Defaults to `25`, so that there is less than half a minute between lines.
    """

    def __init__(
        self, reporter: TrainingReporter, budget: Budget, batch_size: int, compilation: Compilation, pause: float = 25.0
    ) -> None:
        super().__init__()
        self._reporter, self._budget, self._batch_size, self._pause = reporter, budget, batch_size, pause
        self._compilation, self._shapes = compilation, compilation.shapes
        self._seconds, self._updates = 0.0, 0
        self._said = self._began = time.monotonic()
        self._task = ""  # while it is empty, nothing is reported
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not self._closed.wait(max(0.1, self._pause / 25)):
            now = time.monotonic()
            if self._task and self._compilation.shapes > self._shapes:
                self._shapes = self._compilation.shapes
                self._task, self._said, self._began = "Compiling", now, now
            # An update that has just begun is not reported here: `on_train_batch_end` will report it.
            if self._task and now - self._said >= self._pause and now - self._began >= self._pause / 6:
                self._said = now
                self._reporter.waiting(self._task, now - self._began)

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._seconds, self._updates = self._budget.seconds, self._budget.updates_done
        self._said = time.monotonic()
        self._begin_update()

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if not self._task:
            return
        if time.monotonic() - self._said >= self._pause:
            seconds, updates = self._budget.seconds, self._budget.updates_done
            rate = (updates - self._updates) * self._batch_size / max(seconds - self._seconds, 1e-9)
            self._reporter.updated(updates, rate, float((logs or {})["perplexity"]))
            self._said, self._seconds, self._updates = time.monotonic(), seconds, updates
        self._begin_update()

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        if self._task:
            self._task, self._began = "The validation", time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._task = ""

    def _begin_update(self) -> None:
        self._shapes = self._compilation.shapes
        self._task, self._began = f"Update {self._budget.updates_done + 1:,}", time.monotonic()


class RoundReports(keras.callbacks.Callback):
    """Reports every round after it is saved. The reported rate and time left do not include compiling.

    Args:
        reporter: TrainingReporter.
        budget: Budget.
        checkpoints: Checkpoints, which must come before this one in the list of callbacks.
    """

    def __init__(self, reporter: TrainingReporter, budget: Budget, checkpoints: Checkpoints) -> None:
        super().__init__()
        self._reporter, self._budget, self._checkpoints = reporter, budget, checkpoints

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._done, self._start = self._budget.done, self._budget.seconds
        self._round_start, self._updates = self._start, self._budget.updates_done

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        now, training_round = self._budget.seconds, TrainingRound.from_dict(self._checkpoints.rounds[-1])
        done, left = self._budget.done, None
        if done > self._done:
            left = (now - self._start) / (done - self._done) * (1 - done)
        pairs = (training_round.updates - self._updates) * training_round.pairs / training_round.updates
        rate = pairs / max(now - self._round_start, 1e-9)
        epochs = training_round.updates / self._budget.updates_per_epoch
        number = len(without_averages(self._checkpoints.rounds))
        self._reporter.round_ended(number, training_round, epochs, rate, left)
        self._round_start, self._updates = now, training_round.updates
