"""Exports a trained model for TensorFlow Serving."""

import contextlib
import dataclasses
import errno
import os
import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from keras_encdec.backend import devices
from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.export.comparison import (
    allowed_difference,
    check_scores,
    fitting_pairs,
    model_scores,
    pairs_of_words,
    random_pairs,
)
from keras_encdec.export.models_config import ModelsConfig
from keras_encdec.export.serving_config import ExportOptions, write_batching_parameters
from keras_encdec.export.versions import export_folder, locked, new_version, versions
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import is_url, joined
from keras_encdec.trained_model import NOT_SERVED, TrainedModel, check_has_source


@dataclasses.dataclass(frozen=True)
class ExportResult:
    """What `export_model` wrote.

    Attributes:
        path: pathlib.Path of the version's folder; for a remote folder its URL, a str.
        version: int.
        stable: int. The version with the label `stable`; 0 if the version with it was deleted.
        base_path: str. Path of the export folder on the server, if it was given, now or for an earlier version;
            otherwise `None`.
        tokenization: dict of arguments of `Tokenizer` if the version reads raw text, otherwise `None`.
        tokenization_is_assumed: bool. Whether the tokenization was guessed from the vocabularies, because the model was
            trained on tokenized text.
    """

    path: FilePath
    version: int
    stable: int
    base_path: str | None = None
    tokenization: dict[str, bool] | None = None
    tokenization_is_assumed: bool = False


def export_model(
    model_dir: FilePath, export_dir: FilePath, options: ExportOptions | None = None, **values: object
) -> ExportResult:
    """Writes a version of a trained model for TensorFlow Serving, and the server's configuration files.

    The version appears in the folder only when it is complete and its scores of a few pairs equal the model's, so that
    a server may poll the folder. The label `canary` in `models.config` then moves to the new version. The label
    `stable` is set by the first export, and later only by `move_stable_label`.

    Args:
        model_dir: path of the model directory; any backend may have trained it.
        export_dir: path of the folder of the served model's versions, which is created if it does not exist; or its
            URL: the version is then made on this machine and uploaded, its graph and `models.config` last.
        options: ExportOptions. Defaults to `None`: the defaults of the command.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
        InputError: if the model cannot be read or has no source, the version exists or cannot be written, or its
            scores differ from the model's; then nothing is published. Also if the backend of Keras is not TensorFlow.
        ImportError: if tensorflow-serving-api is not installed.
    """
    require_tensorflow()
    if os.path.exists(export_dir) and not os.path.isdir(export_dir):
        raise InputError(
            "found a file", "expected a folder, or a path that does not exist yet", "check --export_dir", export_dir
        )
    options = ExportOptions.combined(options, values)
    with export_folder(export_dir) as folder:
        result = _export(model_dir, folder, options)
    if is_url(export_dir):
        result = dataclasses.replace(result, path=joined(export_dir, f"{result.version}"))
    return result


def _export(model_dir: FilePath, export_dir: pathlib.Path, options: ExportOptions) -> ExportResult:
    """Exports to a folder on this machine."""
    from keras_encdec.export.saved_model import write_saved_model

    config, model_name = options.serving_config, options.model_name
    # Raises an error for a file that cannot be used, before the model is exported.
    labels = ModelsConfig(export_dir, model_name, options.base_path)
    config.check_model(TrainedModel.read(model_dir))
    directory = load_served_directory(model_dir)
    tokenization = (directory.tokenization or _likely_tokenization(directory)) if options.raw_text else None
    with (
        _tensorflow_errors_explained(export_dir),
        new_version(export_dir, options.version, labels.largest_labelled) as made,
    ):
        rounded = write_saved_model(directory, made.path, config, tokenization, model_name)
        served = dataclasses.replace(directory, model=rounded)
        check_version(served, made.path, tokenization, config.max_tokens)
    with locked(export_dir):
        # Read again: another process may have moved labels meanwhile.
        labels = ModelsConfig(export_dir, model_name, options.base_path)
        numbers = versions(export_dir)
        newest = max(made.number, labels.canary) if labels.canary in numbers else made.number
        is_first = numbers == [made.number] or not (labels.stable or labels.canary)
        labels.write(made.number if is_first else None, newest)
    write_batching_parameters(export_dir)
    return ExportResult(
        export_dir / str(made.number),
        made.number,
        labels.stable,
        labels.given_base_path,
        tokenization,
        tokenization_is_assumed=options.raw_text and directory.tokenization is None,
    )


def load_served_directory(path: str | os.PathLike[str]) -> ModelDirectory:
    """Loads a model directory, and checks that its model has a source: language models are not served.

    Raises:
        InputError: if the directory cannot be loaded, see `ModelDirectory.load`, or holds a language model.
    """
    directory = ModelDirectory.load(path)
    check_has_source(directory.model.has_source, path, remedy=NOT_SERVED)
    return directory


def require_tensorflow() -> None:
    """Raises InputError if the backend of Keras is not TensorFlow: only TensorFlow writes a SavedModel."""
    if devices.backend_name() != "tensorflow":
        raise InputError(
            f"found Keras on {devices.backend_name()}",
            "expected KERAS_BACKEND=tensorflow, which a SavedModel needs",
            "set it before Keras is imported; TensorFlow also loads models that were trained on another backend",
        )


def _likely_tokenization(directory: ModelDirectory) -> dict[str, bool]:
    """Guesses how the training data was tokenized: it was lowercased if all words of the vocabularies are lowercase."""
    words = [*directory.source_vocabulary.words, *directory.target_vocabulary.words]
    return {"lowercase": all(word == word.lower() for word in words)}


@contextlib.contextmanager
def _tensorflow_errors_explained(export_dir: str | os.PathLike[str]) -> Iterator[None]:
    """Turns TensorFlow's errors in the `with` block, such as a full disk, into InputErrors."""
    try:
        yield
    except tf.errors.OpError as error:
        with explained(export_dir, "to write"):
            for number in errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS:
                if os.strerror(number) in error.message:  # all that TensorFlow keeps of the system's error
                    raise OSError(number, error.message) from error
        remedy = "if the disk is not full and the path can be written, report this as a bug in keras-encdec"
        found = f"found that writing failed ({error.message.splitlines()[0]})"
        raise InputError(found, "", remedy, export_dir) from error


# A few pairs detect a wrong graph or wrong weights. `verify_export` compares a thousand.
PAIRS = 8


def check_version(
    directory: ModelDirectory, path: pathlib.Path, tokenization: dict[str, bool] | None, max_tokens: int
) -> None:
    """Loads a version that was just written, and compares its scores of a few random pairs with the model's.

    Args:
        directory: ModelDirectory, with its model.
        path: pathlib.Path of the version's folder.
        tokenization: dict of arguments of `Tokenizer` if the version reads raw text, otherwise `None`.
        max_tokens: int. Maximum number of tokens of a phrase that the version accepts.

    Raises:
        InputError: if the version does not load or score, or its scores differ.
    """
    remedy = (
        "nothing was published: export again, and if that fails too, train the model again or use the version of "
        "TensorFlow that this package is tested with"
    )
    texts = [*fitting_pairs(random_pairs(directory, PAIRS), tokenization, max_tokens), ("", "")]
    try:
        score = tf.saved_model.load(str(path)).signatures["serving_default"]
        sources, targets = map(tf.constant, zip(*texts, strict=True))
        scores = score(source=sources, target=targets)["log_prob"].numpy().astype(np.float64)
    except Exception as error:  # TensorFlow raises many types of errors for a broken file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"found an exported model that does not score ({reason})", "expected scores", remedy, path.parent
        ) from error
    expected = model_scores(directory, pairs_of_words(texts, tokenization))
    check_scores("exported", scores, expected, texts, path.parent, remedy, allowed_difference(directory))
