"""The files of a training run in a model directory: its checkpoints and its settings. None of this needs Keras."""

import contextlib
import os
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_encdec.architectures.architecture_registry import load_preset
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError
from keras_encdec.model_config import (
    CONFIG,
    HISTORY,
    PACKAGED,
    VOCABULARIES,
    WEIGHTS,
    is_packaged,
    read_model_config,
    task_folder,
)
from keras_encdec.runtime.files import STANDARD_STREAM, absolute, checked_utf8, exists, is_url, joined
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.settings_files import Json, toml_lines, toml_value
from keras_encdec.trainers.tasks import TASKS_FILE, TrainingTasks
from keras_encdec.trainers.training_config import TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

if TYPE_CHECKING:
    from keras_encdec.model_directory import ModelDirectory

# The newest checkpoint, and the previous one. Both contain the history of the rounds, under its name.
LAST, PREVIOUS = "last.keras", "previous.keras"
# The folder of the pairs to train on, which are prepared before the first checkpoint.
PREPARED = "prepared"
# The file in the model directory that holds the configuration and the data, as a preset.
SETTINGS = "settings.toml"
# The files that a training run replaces in its directory. Prepared pairs, the model card and the progress record are
# checked when they are written.
_REPLACED = (CONFIG, *VOCABULARIES, WEIGHTS, HISTORY, SETTINGS)


def check_model_folder(model_dir: FilePath, resume: bool, tasks: TrainingTasks | None = None) -> None:
    """Checks that a training run may begin in a model directory, or be resumed.

    Args:
        model_dir: path or URL of the model directory, which need not exist.
        resume: bool. Whether the run in it is to be resumed, if there is one.
        tasks: TrainingTasks; `None` for one task. Defaults to `None`.

    Raises:
        ConfigurationError: a ValueError, if it contains a model that is not to be resumed.
        InputError: if it belongs to the package, has a trained model but no checkpoint of its training, or has a file
            that a run would replace and that no run wrote. Also if its path is not UTF-8, which TensorBoard needs.
    """
    checked_utf8(os.fspath(model_dir))
    if is_url(model_dir):
        has_model = not resume and exists(joined(model_dir, CONFIG))
    else:
        check_not_packaged(model_dir)
        has_begun = has_checkpoint(model_dir, resume)
        if not has_begun:
            folder = pathlib.Path(model_dir)
            _check_no_other_files(folder, (*_REPLACED, *([TASKS_FILE] if tasks else [])))
            for name in tasks.others if tasks else ():
                _check_no_other_files(task_folder(folder, name), _REPLACED)
        has_model = has_begun and not resume
    if has_model:
        raise ConfigurationError(
            "found a model in %s; give another {model_dir}, or {resume} to continue its training", model_dir
        )


def _check_no_other_files(folder: pathlib.Path, names: Sequence[str]) -> None:
    """Checks that files of these names in a folder are those of a training run, which may have been killed."""
    with contextlib.suppress(InputError):
        read_model_config(folder)
        return
    # A run prepares pairs before it writes anything else. If the folder for pairs holds other files, it refuses them.
    if (folder / PREPARED).is_dir() and any((folder / PREPARED).iterdir()):
        return
    for name in names:
        if os.path.lexists(folder / name):
            found = "found a file that encdec-train did not write"
            expected = "expected no file of this name, or the file of an earlier run"
            raise InputError(found, expected, "move it elsewhere, or give another --model_dir", folder / name)


def check_not_packaged(folder: str | os.PathLike[str]) -> None:
    """Checks that a folder does not belong to the package.

    Raises:
        InputError: if it does.
    """
    if pathlib.Path(folder).resolve().is_relative_to(PACKAGED):
        raise InputError(
            "found a folder of the package", "expected a directory of your own", "give another --model_dir", folder
        )


def has_checkpoint(folder: str | os.PathLike[str], resume: bool = True) -> bool:
    """Whether a folder contains a training run that can be resumed.

    Args:
        folder: path of the folder, which need not exist.
        resume: bool. Whether the run in it is to be resumed, which decides what the error says. Defaults to `True`.

    Raises:
        InputError: if there is a trained model, but no checkpoint of its training.
    """
    folder = pathlib.Path(folder)
    if checkpoints_in(folder):
        return True
    # A run that was killed before its first checkpoint has prepared pairs but no history. A model directory that was
    # copied for scoring has neither.
    if (folder / WEIGHTS).exists() and ((folder / HISTORY).exists() or not (folder / PREPARED).exists()):
        if not resume:
            raise InputError("found a trained model", "expected none", "give another --model_dir", folder)
        found, expected = f"found {WEIGHTS} and no {LAST}", f"expected {LAST} to resume the training, or no model"
        raise InputError(found, expected, f"restore {LAST}, or give another --model_dir", folder)
    return False


def has_prepared_pairs(folder: FilePath) -> bool:
    """Whether a folder contains a training run that can be resumed without the files to train on."""
    if is_url(folder):
        return False
    folder = pathlib.Path(folder)
    return bool(checkpoints_in(folder)) and (folder / PREPARED).exists()


def checkpoints_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Lists the checkpoints, the newest first."""
    return [folder / name for name in (LAST, PREVIOUS) if (folder / name).exists()]


def begin_files(
    directory: "ModelDirectory", config: TrainingConfig, data: TrainingData | None, fixed: dict[str, Json] | None = None
) -> None:
    """Writes the files that the directory of a new model begins with: vocabularies, configuration and settings.

    All paths in them are absolute, so that the settings name the same files in any working directory.

    Args:
        directory: ModelDirectory, with the vocabularies.
        config: TrainingConfig.
        data: TrainingData; `None` for a model that cannot be trained further on its own: it gets no settings.
        fixed: dict, what a resumed run must keep, see `fixed_settings`. Defaults to `None`: nothing.
    """
    # A run that was killed before its first checkpoint may have left weights that do not match the new vocabularies.
    for name in (WEIGHTS, SETTINGS):
        (directory.path / name).unlink(missing_ok=True)
    fixed = fixed and TrainingConfig.with_paths(fixed, _absolute)
    directory.save_config(config.architecture, {**config.model_config.to_dict(), "dtype": config.dtype_policy}, fixed)
    if data:
        config = config.from_dict(config.with_paths(config.to_dict(), _absolute))
        save_settings(directory.path, config, data.from_dict(data.with_paths(data.to_dict(), _absolute)))


def _absolute(path: str) -> str:
    return path if path == STANDARD_STREAM or is_packaged(path) else absolute(path)


def save_settings(folder: pathlib.Path, config: TrainingConfig, data: TrainingData) -> None:
    """Writes the settings in TOML, as a preset for `encdec-train --preset=.../settings.toml`."""
    training = config.to_dict()
    architecture, model = training.pop("architecture"), training.pop("model")
    tables = {"model": model, "training": training, "data": data.to_dict()}
    lines = ["# What this model was trained with, as a preset.", f"architecture = {toml_value(architecture)}"]
    for name, values in tables.items():
        lines += ["", f"[{name}]", *toml_lines(values)]
    write_file(folder / SETTINGS, ("\n".join(lines) + "\n").encode())


def data_before(folder: pathlib.Path) -> TrainingData | None:
    """Reads the data that a run began with from its settings; `None` if the settings cannot be read.

    Paths stay as they were saved. The first versions saved relative ones, which start from the working directory of the
    run.
    """
    with contextlib.suppress(InputError, ConfigurationError):
        return TrainingData.from_dict(load_preset(folder / SETTINGS).data)
    return None


def update_settings(folder: pathlib.Path, config: TrainingConfig) -> None:
    """Writes the settings of a resumed run. The data and the initial model stay those that it began with.

    If the settings cannot be read, nothing is written.
    """
    if data := data_before(folder):
        initial_model = load_preset(folder / SETTINGS).training.get("initial_model")
        save_settings(folder, config.replace(initial_model=initial_model), data)
