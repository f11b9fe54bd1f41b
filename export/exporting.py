"""Exports a trained model for TensorFlow Serving, and manages the versions and labels in `models.config`."""

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
from keras_encdec.export.comparison import ScoreDifference, compared, model_scores, pairs_of_words, random_pairs
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
        stable: int. The version with the label `stable`; 0 if that version was deleted.
        tokenization: dict of arguments of `Tokenizer` if the version reads raw text, otherwise `None`.
        tokenization_is_assumed: bool. Whether the tokenization was guessed from the vocabularies, because the model was
            trained on tokens.
    """

    path: pathlib.Path
    version: int
    stable: int
    tokenization: dict[str, bool] | None = None
    tokenization_is_assumed: bool = False


def export_model(
    model_dir: str | os.PathLike,
    export_dir: str | os.PathLike,
    options: ExportOptions | None = None,
    **values: Any,
) -> ExportResult:
    """Writes a version of a trained model for TensorFlow Serving, and the server's configuration files.

    The version appears in the folder only when it is complete and its scores of a few pairs equal the model's, so that
    a server may poll the folder. The label `canary` in `models.config` then moves to the new version. The label
    `stable` is set by the first export, and later only by `move_stable_label`.

    Args:
        model_dir: path of the model directory; any backend may have trained it.
        export_dir: path of the folder of the served model's versions, made if need be.
        options: ExportOptions. Defaults to `None`: the defaults of the command.
        **values: options by name, which override those in `options`.

    Returns:
        ExportResult.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
        InputError: when the model cannot be read or has no source, the version exists or cannot be written, or its
            scores differ from the model's; nothing is published then. Also when Keras runs on another backend than
            TensorFlow.
        ImportError: when tensorflow-serving-api is not installed.
    """
    require_tensorflow()
    from keras_encdec.export.saved_model import write_saved_model

    if os.path.exists(export_dir) and not os.path.isdir(export_dir):
        raise InputError("found a file", "expected a folder, or none yet", "check --export_dir", export_dir)
    options = ExportOptions.combined(options, values)
    config, model_name = options.serving_config, options.model_name
    labels = ModelsConfig(export_dir, model_name)  # raises for an unusable file before the model is exported
    directory = load_served_directory(model_dir)
    tokenization = (directory.tokenization or _likely_tokenization(directory)) if options.raw_text else None
    with (
        _tensorflow_errors_explained(export_dir),
        new_version(export_dir, options.version, labels.largest_labelled) as made,
    ):
        write_saved_model(directory, made.path, config, tokenization, model_name)
        check_version(directory, made.path, tokenization, config.max_tokens)
    with locked(export_dir):
        labels = ModelsConfig(export_dir, model_name)  # read again: another process may have moved labels meanwhile
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
    """Moves the label `stable` to a version. A server that polls `models.config` then follows.

    Args:
        export_dir: path of the folder of the versions.
        model_name: str. Name of the model on the server.
        version: int.

    Returns:
        path of `models.config`.

    Raises:
        InputError: when there is no such version, or `models.config` has another model for the folder.
    """
    _require_version(export_dir, version)
    with locked(export_dir):
        return ModelsConfig(export_dir, model_name).write(stable=version)


def remove_version(export_dir: str | os.PathLike, model_name: str, version: int) -> None:
    """Removes the labels of a version from `models.config`, and then its folder.

    Args:
        export_dir: path of the folder of the versions.
        model_name: str. Name of the model on the server.
        version: int.

    Raises:
        InputError: when there is no such version, it has the label `stable`, or `models.config` has another model for
            the folder.
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
    """Loads a model directory, and checks that its model has a source: language models are not served.

    Raises:
        InputError: when the directory cannot be loaded, see `ModelDirectory.load`, or holds a language model.
    """
    directory = ModelDirectory.load(path)
    if not directory.model.has_source:
        raise InputError("found a language model", "expected a model with a source", "score with encdec-score", path)
    return directory


def require_tensorflow() -> None:
    """Raises InputError if Keras runs on another backend than TensorFlow: only TensorFlow writes a SavedModel."""
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
    """Guesses how the training data was tokenized: it was lowercased if all words of the vocabularies are lowercase."""
    words = [*directory.source_vocabulary.words, *directory.target_vocabulary.words]
    return {"lowercase": all(word == word.lower() for word in words)}


@contextlib.contextmanager
def _tensorflow_errors_explained(export_dir) -> Iterator[None]:
    """Turns TensorFlow's errors in the `with` block, such as a full disk, into InputErrors."""
    try:
        yield
    except tf.errors.OpError as error:
        raise InputError(
            f"could not be written ({error.message.splitlines()[0]})",
            "",
            "free space, or check the path and its permissions",
            export_dir,
        ) from error


# A few pairs detect a wrong graph or wrong weights. `verify_export` compares a thousand.
PAIRS = 8


def check_version(
    directory: ModelDirectory, path: pathlib.Path, tokenization: dict[str, bool] | None, max_tokens: int
) -> ScoreDifference:
    """Loads a version that was just written, and compares its scores of a few random pairs with the model's.

    Args:
        directory: ModelDirectory, with its model.
        path: pathlib.Path of the version's folder.
        tokenization: dict of arguments of `Tokenizer` if the version reads raw text, otherwise `None`.
        max_tokens: int. Largest number of tokens of a phrase that the version accepts.

    Returns:
        ScoreDifference.

    Raises:
        InputError: when the version does not load or score, or its scores differ.
    """
    remedy = (
        "nothing was published: export again, and if that fails too, train the model again or use the version of "
        "TensorFlow that this package is tested with"
    )
    made = random_pairs(directory, PAIRS)
    words = pairs_of_words(made, tokenization)
    fitting = [text for text, sides in zip(made, words, strict=True) if max(map(len, sides)) <= max_tokens]
    texts = [*fitting, ("", "")]
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

    The server serves every version whose folder exists: it moves a label only to a version that it has already loaded,
    and rejects the file if it cannot move a label. The label `stable` stays at its version until the user moves it;
    `canary` is the newest exported version. The server also rejects labels of versions that do not exist; `write`
    removes them. `write` sets the path, platform, version policy and these two labels of this model, and keeps the
    rest of the file except comments.

    Args:
        export_dir: path of the folder of the versions.
        name: str. The model's name.

    Raises:
        InputError: when the file cannot be read or parsed, or it has another model for the folder.
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
                f"found a file that cannot be parsed ({error})",
                "expected TensorFlow Serving's ModelServerConfig",
                "correct it, or remove it: the next export writes a new one",
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
        """The version with the label `stable`; 0 if there is none."""
        return self._model.version_labels.get(STABLE, 0)

    @property
    def canary(self) -> int:
        """The version with the label `canary`; 0 if there is none."""
        return self._model.version_labels.get(CANARY, 0)

    @property
    def largest_labelled(self) -> int:
        """The largest version with a label, even if the version no longer exists; 0 if there is none."""
        return max(self._model.version_labels.values(), default=0)

    def write(self, stable: int | None = None, canary: int | None = None, without: int | None = None) -> pathlib.Path:
        """Writes the file.

        Args:
            stable, canary: int. The versions with these labels. Default to `None`: unchanged.
            without: int. A version that will be removed: its labels are dropped. Optional.

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
