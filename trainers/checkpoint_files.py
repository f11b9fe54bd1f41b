"""The files of a training in a model directory, which are found without Keras."""

import os
import pathlib

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError
from keras_encdec.model_config import CONFIG, HISTORY, PACKAGED, WEIGHTS
from keras_encdec.runtime.files import exists
from keras_encdec.runtime.urls import is_url, joined

# The newest checkpoint, and the previous one. Both contain the history of the rounds, under its name.
LAST, PREVIOUS = "last.keras", "previous.keras"
# The folder of the pairs to train on, which are prepared before the first checkpoint.
PREPARED = "prepared"


def check_model_folder(model_dir: FilePath, resume: bool) -> None:
    """Checks that a training may begin in a model directory, or be resumed.

    Args:
        model_dir: path or URL of the model directory, which need not exist.
        resume: bool. Whether the training in it is to be resumed, if there is one.

    Raises:
        ConfigurationError: a ValueError, if it contains a model that is not to be resumed.
        InputError: if it belongs to the package, or has a trained model, but no checkpoint of its training.
    """
    if is_url(model_dir):
        has_model = not resume and exists(joined(model_dir, CONFIG))
    else:
        check_not_packaged(model_dir)
        has_model = has_checkpoint(model_dir) and not resume
    if has_model:
        raise ConfigurationError(
            "%s already contains a model; give another {model_dir}, or {resume} to continue its training", model_dir
        )


def check_not_packaged(folder: str | os.PathLike[str]) -> None:
    """Checks that a folder does not belong to the package.

    Raises:
        InputError: if it does.
    """
    if pathlib.Path(folder).resolve().is_relative_to(PACKAGED):
        raise InputError(
            "found a folder of the package", "expected a directory of your own", "give another --model_dir", folder
        )


def has_checkpoint(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder contains a training that can be resumed.

    Raises:
        InputError: when there is a trained model, but no checkpoint of its training.
    """
    folder = pathlib.Path(folder)
    if checkpoints_in(folder):
        return True
    # A training that was killed before its first checkpoint has prepared pairs but no history. A model directory that
    # was copied for scoring has neither.
    if (folder / WEIGHTS).exists() and ((folder / HISTORY).exists() or not (folder / PREPARED).exists()):
        raise InputError(
            f"found {WEIGHTS} and no {LAST}",
            f"expected {LAST} to resume the training, or no model",
            f"restore {LAST}, or give another --model_dir",
            folder,
        )
    return False


def checkpoints_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Lists the checkpoints, the newest first."""
    return [folder / name for name in (LAST, PREVIOUS) if (folder / name).exists()]
