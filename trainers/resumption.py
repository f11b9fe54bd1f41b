"""Saves and loads checkpoints of a training run, which contain everything that changes during it."""

import contextlib
import dataclasses
import errno
import json
import math
import os
import pathlib
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import keras
import numpy as np

from keras_encdec.backend.replicas import Replicas
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_config import HISTORY, WEIGHTS, replace_weights
from keras_encdec.model_directory import load_model
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.pruning.pruning_masks import PruningMasks
from keras_encdec.runtime.files import flush_to_disk
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.unfinished import unfinished
from keras_encdec.sparse_weights import store_sparse
from keras_encdec.trainers.reporting import TrainingRound
from keras_encdec.trainers.training_files import LAST, PREVIOUS, checkpoints_in

GENERATOR, MASKS = "generator.npz", "masks.npz"
PARTIAL = ".partial-"
_EXPECTED, _REMEDY = "expected a checkpoint of encdec-train", "restore the file, or train again"


@dataclasses.dataclass(frozen=True)
class Progress:
    """Everything that changes during a training run, except the model and its optimizer.

    Attributes:
        rounds: list of dicts from name to value, a dict for each complete round, as in `history.json`.
        updates: int. Number of updates, including those of a round that is not complete.
        seconds: float. Time of training.
        learning_rate: float. The full learning rate; `None` in a checkpoint of the first versions.
        factor: float. The `Budget.factor`; `None` as above.
        sums: tuple of float. The values of `round_sums`; empty at the end of a round.
        generator: dict, see `keras_encdec.backend.replicas.set_generator_state`; empty if it is unknown.
        masks: dict, see `PruningMasks.to_arrays`; empty if all weights are trained.
    """

    rounds: Sequence[dict[str, float]] = ()
    updates: int = 0
    seconds: float = 0.0
    learning_rate: float | None = None
    factor: float | None = None
    sums: Sequence[float] = ()
    generator: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    masks: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def round_updates(self) -> int:
        """Number of updates of the round that is not complete."""
        return self.updates - (int(self.rounds[-1]["updates"]) if self.rounds else 0)

    @classmethod
    def from_json(
        cls, text: bytes, generator: Mapping[str, np.ndarray], masks: Mapping[str, np.ndarray] | None = None
    ) -> Self:
        """Parses the history in a checkpoint. Raises KeyError, TypeError or ValueError for any other text.

        The first versions saved the rounds alone, at the end of a round.
        """
        found = json.loads(text)
        rounds = found.get("rounds") if isinstance(found, dict) else None
        if not isinstance(rounds, list) or not rounds and "updates" not in found:
            raise ValueError("it has no rounds")
        for entry in rounds:
            if not isinstance(entry, dict):
                raise ValueError(f"a round is {entry!r}")
            TrainingRound.from_dict(entry)  # raises for a round that lacks a required value
            if type(entry["updates"]) is not int or not all(map(math.isfinite, entry.values())):
                raise ValueError(f"a round is {entry}")
        if "updates" not in found:
            return cls(rounds, rounds[-1]["updates"], rounds[-1]["seconds"], generator=generator)
        names = "updates", "seconds", "learning_rate", "factor", "sums"
        progress = cls(rounds, **{name: found[name] for name in names}, generator=generator, masks=masks or {})
        numbers = progress.seconds, progress.learning_rate or 0.0, progress.factor or 0.0, *progress.sums
        if type(progress.updates) is not int or progress.round_updates < 0 or not all(map(math.isfinite, numbers)):
            raise ValueError("its number of updates, its time or its sums are wrong")
        return progress

    def to_json(self) -> str:
        """Writes everything except the state of the generator and the masks."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps({name: value for name, value in fields.items() if name not in ("generator", "masks")})


def without_averages(rounds: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Returns the rounds of training in a history, without the averages of rounds, which follow the last round."""
    return [past for past in rounds if "averaged_rounds" not in past]


def round_sums(model: keras.Model) -> list[keras.Variable]:
    """Returns the variables that hold the sums of a round: those of the model's metrics and of the gradients' norms."""
    norms = GradientNorms.of(model.optimizer)
    return [*model.metrics_variables, *(norms.variables if norms else [])]


class TrainingState(NamedTuple):
    """A training run at one moment."""

    model: TranslationModel
    progress: Progress


def save_model(folder: pathlib.Path, name: str, model: keras.Model, progress: Progress | None = None) -> None:
    """Saves a model in a model directory: as its weights, or as its newest checkpoint.

    The file appears under its name when it is complete and on disk. The previous checkpoint is kept as `PREVIOUS`.

    Args:
        folder: path of the model directory.
        name: `WEIGHTS` or `LAST`.
        model: keras.Model.
        progress: Progress, for a checkpoint. Defaults to `None`.

    Raises:
        InputError: if the file cannot be written, as on a full disk.
    """
    partial = folder / f"{PARTIAL}{name}"
    try:
        with unfinished(partial):
            model.save(partial)
            if progress:
                _add_progress(partial, progress)
            if name == WEIGHTS:
                store_sparse(partial)  # makes a pruned model small, and leaves any other as it is
            flush_to_disk(partial)
            if name == WEIGHTS:
                replace_weights(folder, partial)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(folder / LAST, folder / PREVIOUS)
                os.replace(partial, folder / LAST)
            flush_to_disk(folder)
    except OSError as error:
        again = "continue with --resume" if checkpoints_in(folder) else "train again"
        first = "free space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the disk and the folder"
        found = f"found that writing failed ({error.strerror or error})"
        raise InputError(found, remedy=f"{first}, then {again}", path=folder / name) from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _add_progress(path: pathlib.Path, progress: Progress) -> None:
    """Adds a training's progress to a file of weights."""
    members: dict[str, Mapping[str, Any]] = {GENERATOR: progress.generator}
    if progress.masks:
        members[MASKS] = progress.masks
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(HISTORY, progress.to_json())
        for member, arrays in members.items():
            with archive.open(member, "w") as file:
                np.savez(file, **arrays)


def load_checkpoint(folder: str | os.PathLike[str], replicas: Replicas | None = None) -> TrainingState:
    """Loads the newest undamaged checkpoint of a training run, with the model compiled as before.

    If the newest checkpoint is damaged, a warning says so, and the previous one takes its place.

    Args:
        folder: path of the model directory.
        replicas: Replicas to train on. All of their processes must call this function. Defaults to one device.

    Raises:
        InputError: if there is no checkpoint, or none can be loaded.
    """
    folder, replicas = pathlib.Path(folder), replicas or Replicas()
    errors = []
    for path in checkpoints_in(folder) or [folder / LAST]:
        try:
            with replicas.building():
                state = _load(path)
        except InputError as error:
            errors.append(error)
            continue
        replicas.wait()
        if errors and replicas.is_chief:
            warnings.warn(
                EncdecWarning(
                    f"{folder / LAST}: {errors[0].found}; continuing from the checkpoint before it, after "
                    f"{counted(state.progress.updates, 'updates')}."
                ),
                stacklevel=2,
            )
        if path.name == PREVIOUS and replicas.is_chief:
            os.replace(path, folder / LAST)  # otherwise, the next save would overwrite it with the damaged one
        return state
    if len(errors) == 1:
        raise errors[0]
    found = f"found no checkpoint that loads: {LAST}: {errors[0].found}; {PREVIOUS}: {errors[1].found}"
    raise InputError(found, _EXPECTED, "restore one of the two files, or train again", folder)


def _load(path: pathlib.Path) -> TrainingState:
    model = load_model(path, compiled=True)
    try:
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise InputError(f"found a wrong checksum of {damaged} in it", _EXPECTED, _REMEDY, path)
            if HISTORY not in archive.namelist():
                raise InputError("found no history of the training in it", _EXPECTED, _REMEDY, path)
            saved: dict[str, dict[str, np.ndarray]] = {GENERATOR: {}, MASKS: {}}
            for name in saved.keys() & set(archive.namelist()):
                with archive.open(name) as file, np.load(file) as arrays:
                    saved[name] = dict(arrays)
            progress = Progress.from_json(archive.read(HISTORY), saved[GENERATOR], saved[MASKS])
        if progress.masks:
            PruningMasks(model, progress.masks)
        if progress.sums and len(progress.sums) != len(round_sums(model)):
            raise ValueError(f"it has {len(progress.sums)} sums")
    except InputError:
        raise
    except Exception as error:  # zip, NumPy and JSON raise many kinds of errors for other bytes
        reason = f"found an invalid history or generator state in it ({error})"
        raise InputError(reason, _EXPECTED, _REMEDY, path) from error
    return TrainingState(model, progress)
