"""Exports a trained model for TensorFlow Serving: versions, their labels, and the server's list of models."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import text_format

from keras_encdec.backend import devices
from keras_encdec.errors import InputError
from keras_encdec.export.comparison import ScoreDifference, compared, made_pairs_of, model_scores, pairs_of_words
from keras_encdec.export.serving_config import ExportOptions, write_batching_parameters
from keras_encdec.export.versions import locked, new_version, remove_folder, versions
from keras_encdec.formats import open_output
from keras_encdec.model_directory import ModelDirectory


@dataclasses.dataclass(frozen=True)
class ExportResult:
    """What `export_model` wrote.

    Attributes:
        path: pathlib.Path of the version's folder.
        version: int.
        stable: int. The version that has the label `stable`; 0 where the version that had it was deleted.
        tokenization: dict of arguments of `Tokenizer`, where the version reads raw text; else `None`.
        tokenization_is_assumed: bool. Whether the model was trained on tokens, so that the tokenization of raw text
            was concluded from its vocabularies.
    """

    path: pathlib.Path
    version: int
    stable: int
    tokenization: dict[str, Any] | None = None
    tokenization_is_assumed: bool = False


def export_model(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    options: ExportOptions | None = None,
    **values: Any,
) -> ExportResult:
    """Writes a version of a trained model that TensorFlow Serving loads, and the files the server is started with.

    The version appears in the folder when it is complete and its scores of a few pairs equal the model's, so that a
    server may poll the folder. The label `canary` of `models.config` moves to it; the label `stable` moves only to the
    first version.

    Args:
        model_dir: path of the model directory; any backend may have trained it.
        export_dir: path of the folder of the served model's versions, made if need be.
        options: ExportOptions. Defaults to `None`: the defaults of the command.
        **values: options by name, which override those in `options`.

    Returns:
        ExportResult.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
        InputError: when the model cannot be read or has no source, the version exists, it cannot be written, or the
            written version does not score as the model does; nothing is published then. Under another backend of Keras
            than TensorFlow.
        ImportError: when tensorflow-serving-api is not installed.
    """
    require_tensorflow()
    from keras_encdec.export.saved_model import write_saved_model

    if os.path.exists(export_dir) and not os.path.isdir(export_dir):
        raise InputError("found a file", "expected a folder, or none yet", "check --export_dir", export_dir)
    options = ExportOptions.combined(options, values)
    config, model_name = options.serving_config, options.model_name
    labels = ModelsConfig(export_dir, model_name)  # raises for a file that cannot be used, before the work
    directory = load_served_directory(model_dir)
    tokenization = (directory.tokenization or _likely_tokenization(directory)) if options.raw_text else None
    with (
        _tensorflow_errors_explained(export_dir),
        new_version(export_dir, options.version, labels.largest_labelled) as made,
    ):
        write_saved_model(directory, made.path, config, tokenization, model_name)
        check_version(directory, made.path, tokenization, config.max_tokens)
    with locked(export_dir):
        labels = ModelsConfig(export_dir, model_name)  # read again: they may have been moved meanwhile
        newest = max(made.number, labels.canary) if labels.canary in versions(export_dir) else made.number
        labels.write(None if labels.stable else made.number, newest)
    write_batching_parameters(export_dir)
    return ExportResult(
        pathlib.Path(export_dir) / str(made.number),
        made.number,
        labels.stable,
        tokenization,
        tokenization_is_assumed=options.raw_text and directory.tokenization is None,
    )


def move_stable_label(export_dir: str | os.PathLike, model_name: str, version: int) -> pathlib.Path:
    """Makes another version the stable one, for a server that reads `models.config` again.

    Args:
        export_dir: path of the folder of the versions.
        model_name: str. Name of the model on the server.
        version: int.

    Returns:
        path of `models.config`.

    Raises:
        InputError: when there is no such version, or the folder is another model's.
    """
    _require_version(export_dir, version)
    with locked(export_dir):
        return ModelsConfig(export_dir, model_name).write(stable=version)


def remove_version(export_dir: str | os.PathLike, model_name: str, version: int) -> None:
    """Removes a version: first its labels from `models.config`, then its folder.

    Args:
        export_dir: path of the folder of the versions.
        model_name: str. Name of the model on the server.
        version: int.

    Raises:
        InputError: when there is no such version, it is the stable one, or the folder is another model's.
    """
    _require_version(export_dir, version)
    with locked(export_dir):
        labels = ModelsConfig(export_dir, model_name)
        if labels.stable == version:
            raise InputError(
                f"found version {version} to be the stable one",
                "expected another version",
                "move the label first (--stable_version)",
                export_dir,
            )
        labels.write(without=version)
        remove_folder(export_dir, version)


def load_served_directory(path: str | os.PathLike) -> ModelDirectory:
    """Loads the model directory of a model with a source: only such models are served.

    Raises:
        InputError: see `ModelDirectory.load`; for a language model.
    """
    directory = ModelDirectory.load(path)
    if not directory.model.has_source:
        raise InputError("found a language model", "expected a model with a source", "score with encdec-score", path)
    return directory


def require_tensorflow() -> None:
    """Raises InputError under another backend of Keras than TensorFlow, which a SavedModel needs."""
    if devices.name() != "tensorflow":
        raise InputError(
            f"found Keras on {devices.name()}",
            "expected KERAS_BACKEND=tensorflow, which a SavedModel needs",
            "set it before Keras is imported; a model trained on another backend loads there too",
        )


def _require_version(export_dir, version):
    there = versions(export_dir)
    if version not in there:
        listed = ", ".join(map(str, there)) or "none"
        raise InputError(f"found no version {version}", f"expected one of those there ({listed})", "", export_dir)


def _likely_tokenization(directory):
    """The tokenization that probably made the tokens of a model's training: with case folding if its words have it."""
    words = [*directory.source_vocabulary.words, *directory.target_vocabulary.words]
    return {"lowercase": all(word == word.lower() for word in words)}


@contextlib.contextmanager
def _tensorflow_errors_explained(export_dir) -> Iterator[None]:
    """In the `with` block, TensorFlow's errors of writing, such as a full disk, become InputErrors."""
    try:
        yield
    except tf.errors.OpError as error:
        raise InputError(
            f"could not be written ({error.message.splitlines()[0]})",
            "",
            "free space, or check the path and its permissions",
            export_dir,
        ) from error


# Enough to detect a wrong graph or wrong weights; `verify_export` compares a thousand.
PAIRS = 8


def check_version(
    directory: ModelDirectory, path: pathlib.Path, tokenization: dict[str, Any] | None, max_tokens: int
) -> ScoreDifference:
    """Loads a version that was just written, and compares the scores of a few pairs with the model's own.

    Args:
        directory: ModelDirectory, with its model.
        path: pathlib.Path of the version's folder.
        tokenization: dict of arguments of `Tokenizer`, where the version reads raw text; else `None`.
        max_tokens: int. Most tokens of a phrase that the version accepts.

    Returns:
        ScoreDifference.

    Raises:
        InputError: when it does not load or score, or the scores differ.
    """
    remedy = (
        "nothing was published: export again, and if that fails too, train the model again or use the version of "
        "TensorFlow that this package is tested with"
    )
    made = made_pairs_of(directory, PAIRS)
    words = pairs_of_words(made, tokenization)
    fitting = [text for text, sides in zip(made, words, strict=True) if max(map(len, sides)) <= max_tokens]
    texts = [*fitting, ("", "")]
    try:
        score = tf.saved_model.load(str(path)).signatures["serving_default"]
        sources, targets = map(tf.constant, zip(*texts, strict=True))
        scores = score(source=sources, target=targets)["log_prob"].numpy().astype(np.float64)
    except Exception as error:  # any kind: TensorFlow raises several for a broken file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"found an exported model that does not score ({reason})", "expected scores", remedy, path.parent
        ) from error
    expected = model_scores(directory, pairs_of_words(texts, tokenization))
    return compared("exported", scores, expected, texts, path.parent, remedy)


try:
    from tensorflow_serving.config import model_server_config_pb2
except ImportError as error:
    raise ImportError(
        f"Exporting needs tensorflow-serving-api, which is not installed ({error}): "
        "pip install 'keras-encdec[serving]'."
    ) from error

MODELS_CONFIG = "models.config"
STABLE, CANARY = "stable", "canary"


class ModelsConfig:
    """The `models.config` of an export folder: the served models and the labels of their versions.

    Every version whose folder exists is served, because a server moves a label only to a version that it has already
    loaded, and stops reading a file at a label that it cannot move. The label `stable` stays at a version until it is
    moved; `canary` is the newest exported version. Labels of versions that do not exist would also stop a server, and
    are removed when the file is written. Of this model the path, platform, version policy and these two labels are
    written; the rest of the file stays, without its comments.

    Args:
        export_dir: path of the folder of the versions.
        name: str. The model's name.

    Raises:
        InputError: when the file exists and cannot be used, or the folder is another model's.
    """

    def __init__(self, export_dir: str | os.PathLike, name: str) -> None:
        self._folder = pathlib.Path(export_dir)
        self._path = self._folder / MODELS_CONFIG
        self._file = model_server_config_pb2.ModelServerConfig()
        try:
            text_format.Parse(self._path.read_text(encoding="utf-8"), self._file)
        except FileNotFoundError:
            pass
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise InputError(
                f"found a file that does not read ({error})",
                "expected TensorFlow Serving's ModelServerConfig",
                "correct it, or remove it to have it written anew",
                self._path,
            ) from None
        except OSError as error:
            raise InputError(f"could not be read ({error.strerror})", "", "check --export_dir", self._path) from None
        if self._file.WhichOneof("config") == "custom_model_config":
            raise InputError(
                "found a custom_model_config", "expected a model_config_list", "remove the file", self._path
            )
        models = self._file.model_config_list.config
        here = [model.name for model in models if model.base_path == os.path.abspath(self._folder)]
        if here and name not in here:
            raise InputError(
                f"found the model {here[0]!r} for this folder",
                f"expected {name!r}",
                f"give --model_name={here[0]}",
                self._path,
            )
        self._model = next((model for model in models if model.name == name), None) or models.add(name=name)

    @property
    def stable(self) -> int:
        """int. The version with the label `stable`; 0 for none."""
        return self._model.version_labels.get(STABLE, 0)

    @property
    def canary(self) -> int:
        """int. The version with the label `canary`; 0 for none."""
        return self._model.version_labels.get(CANARY, 0)

    @property
    def largest_labelled(self) -> int:
        """int. The largest version that has a label, even if it no longer exists; 0 for none."""
        return max(self._model.version_labels.values(), default=0)

    def write(self, stable: int | None = None, canary: int | None = None, without: int | None = None) -> pathlib.Path:
        """Writes the file.

        Args:
            stable, canary: int. The versions with these labels. Default to `None`: unchanged.
            without: int. A version that will be removed, and loses its labels. Optional.

        Returns:
            path of the file.
        """
        model = self._model
        model.ClearField("model_type")
        # A server requires an absolute path.
        model.base_path, model.model_platform = os.path.abspath(self._folder), "tensorflow"
        model.model_version_policy.all.SetInParent()
        for label, version in ((STABLE, stable), (CANARY, canary)):
            if version:
                model.version_labels[label] = version
        there = set(versions(self._folder)) - {without}
        for label in [label for label, version in model.version_labels.items() if version not in there]:
            del model.version_labels[label]
        with open_output(self._path) as file:
            file.write(text_format.MessageToString(self._file).encode())
        return self._path
