"""The average of trained models, and the directory of a model that differs from a trained one only in its weights."""

import dataclasses
import math
import os
import pathlib
import shutil
import sys
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_encdec.backend.startup import quietly
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.model_config import CONFIG, VOCABULARIES, WEIGHTS, model_path, replace_weights
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import as_result, check_absent, check_lists, is_url
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.unfinished import temporary_folder_beside
from keras_encdec.sparse_weights import is_half, store_half, store_sparse
from keras_encdec.trained_model import check_ensemble

# Lowest cosine between the weights of two models that can be averaged. Models that were trained from the same weights
# have a cosine above 0.7, even if one is pruned; with different initial weights, it is about 0.
MIN_COSINE = 0.3
# The files that a derived model copies, if the model has them.
_COPIED = (CONFIG, *VOCABULARIES, "settings.toml", "LICENSE", "NOTICE")


@dataclasses.dataclass(frozen=True)
class AveragingResult:
    """The result of `average_models`.

    Attributes:
        path: pathlib.Path of the new model directory; for a remote directory its URL, a str.
        models: int. Number of models that were averaged.
        cosine: float. The lowest cosine between the weights of a model and those of the first one.
    """

    path: FilePath
    models: int
    cosine: float

    def __str__(self) -> str:
        return (
            f"The average of {self.models} models: {self.path}\n"
            f"Lowest cosine between the weights of a model and those of the first one: {self.cosine:.2f}."
        )


def average_models(model_dirs: Sequence[FilePath], output: FilePath) -> AveragingResult:
    """Averages the weights of models that were trained from the same weights, and writes the average as a new model.

        theta = 1/K (theta_1 + ... + theta_K)

    Such models lie close together, and their average often translates better than any of them, at the cost of a single
    model. A weight that is zero in all models stays zero, so that models pruned with one mask have a pruned average.

    Args:
        model_dirs: two or more model directories, of models with the same vocabularies and sizes. The files other than
            the weights are those of the first one.
        output: path or URL of the model directory to write, which must not exist.

    Raises:
        ConfigurationError: a ValueError, for fewer than two models.
        InputError: if a model cannot be loaded, differs from the first one in its vocabularies or sizes, or was
            trained from other weights; and if the output exists or cannot be written.

    Example:

        average_models(["student1", "student2"], "average")

    Reference:
        - Wortsman et al., 2022, "Model soups: averaging weights of multiple fine-tuned models improves accuracy without
          increasing inference time" (arXiv 2203.05482), section 2: the uniform soup
    """
    check_lists(model_dirs=model_dirs)
    if len(model_dirs) < 2:
        raise ConfigurationError("found %d in {model_dir}, expected two models or more to average", len(model_dirs))
    check_absent(output)
    first = ModelDirectory.load(model_path(model_dirs[0]))
    start = _values(first)
    total, cosine = [value.copy() for value in start], 1.0
    for path in model_dirs[1:]:
        other = ModelDirectory.load(model_path(path))
        check_ensemble([first, other])
        _check_sizes(first, other)
        values = _values(other)
        cosine = min(cosine, _cosine(start, values))
        _check_cosine(cosine, first, other)
        for sum_of_values, value in zip(total, values, strict=True):
            sum_of_values += value
    first.model.set_weights([value / len(model_dirs) for value in total])
    write_derived_model(first, output)
    return AveragingResult(as_result(output), len(model_dirs), cosine)


def _values(directory: ModelDirectory) -> list[np.ndarray]:
    """Returns the weights of a model, in float64."""
    return [ops.convert_to_numpy(weight).astype(np.float64) for weight in directory.model.weights]


def _cosine(values: Sequence[np.ndarray], other_values: Sequence[np.ndarray]) -> float:
    """Computes the cosine of the angle between the weights of two models, each taken as one vector."""
    product, square, other_square = (
        sum(float(np.vdot(a, b)) for a, b in zip(*pair, strict=True))
        for pair in ((values, other_values), (values, values), (other_values, other_values))
    )
    return product / max(math.sqrt(square * other_square), sys.float_info.min)


def _check_sizes(first: ModelDirectory, other: ModelDirectory) -> None:
    sizes, expected = ([(weight.name, tuple(weight.shape)) for weight in each.model.weights] for each in (other, first))
    if sizes != expected:
        raise InputError(
            f"found a model whose architecture or sizes differ from those of {first.path}",
            "expected models that were trained from the same weights",
            "train each from one model, with encdec-train --initial_model",
            other.path,
        )


def _check_cosine(cosine: float, first: ModelDirectory, other: ModelDirectory) -> None:
    if cosine < MIN_COSINE:
        found = f"found weights unlike those in {first.path}: their cosine is {cosine:.2f}"
        expected = "expected models that were trained from the same weights; others have no useful average"
        remedy = "train each from one model, with encdec-train --initial_model, or use them as an ensemble"
        raise InputError(found, expected, remedy, other.path)


def write_derived_model(directory: ModelDirectory, output: FilePath) -> int:
    """Copies a model directory, with the weights that its loaded model has now.

    The file of the weights is sparse if that makes it smaller, see `keras_encdec.sparse_weights`, and in float16 if
    that of the trained model is. The new directory appears when it is complete.

    Args:
        directory: ModelDirectory. The files on disk are not changed.
        output: path or URL of the model directory to write, which must not exist.

    Returns:
        int. Bytes of the new file of weights.

    Raises:
        InputError: if the output exists or cannot be written.
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
    for name in _COPIED:
        if (directory.path / name).is_file():
            shutil.copyfile(directory.path / name, folder / name)
    written = folder / f"new.{WEIGHTS}"
    with quietly():  # Keras imports TensorFlow with any backend
        directory.model.save(written)
    store_sparse(written)
    if is_half(directory.path / WEIGHTS):
        store_half(written)
    replace_weights(folder, written)
