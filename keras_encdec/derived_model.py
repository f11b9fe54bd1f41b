"""Writes a model directory that differs from that of a trained model only in its weights."""

import json
import os
import pathlib
import shutil

from keras_encdec.backend.startup import quietly
from keras_encdec.errors import FilePath, explained
from keras_encdec.model_config import CONFIG, WEIGHTS
from keras_encdec.model_directory import ModelDirectory, replace_weights
from keras_encdec.runtime.files import check_absent, is_url
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.unfinished import temporary_folder_beside
from keras_encdec.sparse_weights import is_half, store_half, store_sparse

# Files to copy besides those whose checksums are in `config.json`.
_OTHERS = ("settings.toml", "LICENSE", "NOTICE")


def write_derived_model(directory: ModelDirectory, output: FilePath) -> int:
    """Writes a new model directory: the files of a model directory, with the weights that its model has now.

    The file of the weights is sparse if that makes it smaller, see `keras_encdec.sparse_weights`, and in float16 if
    that of the trained model is. The new directory appears when it is complete.

    Args:
        directory: ModelDirectory. The files on disk are not changed.
        output: path or URL of the model directory to write, which must not exist.

    Returns:
        int. Bytes of the new file of weights.

    Raises:
        InputError: when the output exists or cannot be written.
    """
    check_absent(output)
    if is_url(output):
        with StagedFolder(os.fspath(output), last=[WEIGHTS, CONFIG]) as staged:
            staged.rmdir()
            return write_derived_model(directory, staged)
    folder = pathlib.Path(output)
    with explained(folder, "to write the model"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder_beside(str(folder.resolve())) as made:
            _write(directory, pathlib.Path(made))
            pathlib.Path(made).rename(folder)
    return (folder / WEIGHTS).stat().st_size


def _write(directory: ModelDirectory, folder: pathlib.Path) -> None:
    config = json.loads((directory.path / CONFIG).read_bytes())
    for name in {CONFIG, *directory.checksums(), *config.get("sha256", {}), *_OTHERS} - {WEIGHTS}:
        if (directory.path / name).is_file():
            shutil.copyfile(directory.path / name, folder / name)
    written = folder / f"new.{WEIGHTS}"
    with quietly():  # Keras imports TensorFlow with any backend
        directory.model.save(written)
    store_sparse(written)
    if is_half(directory.path / WEIGHTS):
        store_half(written)
    replace_weights(folder, written)
