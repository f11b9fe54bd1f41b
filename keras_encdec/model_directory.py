"""A trained model on disk, with its vocabularies."""

import dataclasses
import errno
import functools
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

import keras
import numpy as np
from keras import ops

from keras_encdec import __version__
from keras_encdec.architectures.architecture_registry import architecture
from keras_encdec.backend.devices import keep_tensorflow_off_the_gpu
from keras_encdec.configuration import UnknownChoiceError
from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.formats import model_words, unescape
from keras_encdec.formats.fields import check_texts
from keras_encdec.layers.initializers import weights_will_be_loaded
from keras_encdec.model_config import (
    FORMAT,
    SOURCE_CHARACTERS,
    SOURCE_VOCABULARY,
    TARGET_CHARACTERS,
    TARGET_VOCABULARY,
    VOCABULARIES,
    WEIGHTS,
    check_has_weights,
    model_path,
    read_model_config,
    task_path,
    write_model_config,
)
from keras_encdec.models.translation_model import TranslationModel
from keras_encdec.runtime.files import file_checksum, is_url
from keras_encdec.runtime.progress import counted
from keras_encdec.sparse_weights import dense_file
from keras_encdec.text import Tokenizer, Vocabulary
from keras_encdec.trained_model import TrainedModel

_Side = TypeVar("_Side")


@dataclasses.dataclass
class ModelDirectory:
    """A model, its vocabularies and its tokenization.

    Source and target are those of the model. A reverse model gives p(source | target): its source is the user's
    target.

    Attributes:
        path: pathlib.Path.
        source_vocabulary, target_vocabulary: Vocabulary, of the model's source and target; a language model's
            source has no words.
        reverse: bool. Whether the model was trained with the sides swapped.
        tokenization: `None` for tokenized text, or dict of arguments of `Tokenizer` for raw text.
        model: TranslationModel; `None` if there are no weights yet, or if they were not loaded.
        training: dict, settings that must be the same when the training is resumed.
    """

    path: pathlib.Path
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    reverse: bool = False
    tokenization: dict | None = None
    # Only training opens a directory without a model; all other code would need useless checks for `None`.
    model: TranslationModel = None  # type: ignore[assignment]
    training: dict = dataclasses.field(default_factory=dict)

    def words(self, lines: Sequence[str], factored: bool = False) -> list[list[str]]:
        """Splits lines of text into words, in the same way as the training text.

        Raw text is tokenized; from tokenized text, Moses's escapes are removed.

        Args:
            lines: list of str.
            factored: bool. Whether the lines are from a phrase table or an n-best list. Moses's escapes are then also
                removed from raw text; in tokenized text, a bar in a word separates factors, which are removed. Defaults
                to `False`.

        Returns:
            list of lists of str.

        Raises:
            ValueError: for a str in place of the list.
        """
        check_texts(lines)
        if not lines or self._tokenizer is None:
            return [model_words(line, factored) for line in lines]
        return self._tokenizer.words([unescape(line) for line in lines] if factored else lines)

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer | None:
        if self.tokenization is None:
            return None
        keep_tensorflow_off_the_gpu()
        return Tokenizer(**self.tokenization)

    def save_config(self, name: str, model: dict[str, object], training: dict[str, object] | None = None) -> None:
        """Writes the vocabularies and the configuration: everything except the weights.

        Args:
            name: str. Name of the model's registered architecture, such as "encdec".
            model: dict, the model's hyper-parameters, for people to read.
            training: dict, settings that must be the same when the training is resumed. Optional.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        has_source = architecture(name).has_source
        vocabularies = {SOURCE_VOCABULARY: self.source_vocabulary} if has_source else {}
        vocabularies[TARGET_VOCABULARY] = self.target_vocabulary
        for file_name, vocabulary in list(vocabularies.items()):
            if vocabulary.characters is not None:
                vocabularies[_CHARACTERS[file_name]] = vocabulary.characters
        for file_name, vocabulary in vocabularies.items():
            vocabulary.save(self.path / file_name)
        config = {
            "format": FORMAT,
            "made_by": f"keras-encdec {__version__}",
            "direction": "reverse" if self.reverse else "forward",
            "tokenization": self.tokenization,
            "architecture": name,
            "has_source": has_source,
            "sha256": {file_name: file_checksum(self.path / file_name) for file_name in vocabularies},
            "model": model,
            "training": training or {},
        }
        write_model_config(self.path, config)

    @classmethod
    def load(cls, path: str | os.PathLike, weights: bool = True, task: str | None = None) -> Self:
        """Reads a model directory, whichever backend trained it.

        Args:
            path: path of the directory, or the name of a packaged model, see `model_path`.
            weights: bool. Whether to load the model too. Defaults to `True`.
            task: str. Task of a model that was trained on several tasks. Its model is an ordinary one, which shares
                nothing with those of other tasks. Defaults to `None`: the main task.

        Raises:
            InputError: if it is not a model directory or has another format, if a vocabulary or the weights have
                changed since the training or do not fit together, or if the model was not trained on this task.
        """
        path = task_path(path, task)
        config = read_model_config(path)
        _check_vocabularies(path, config["sha256"])
        saved = TrainedModel(path, config)
        directory = cls(
            path,
            saved.source_vocabulary,
            saved.target_vocabulary,
            saved.reverse,
            saved.tokenization,
            training=config.get("training", {}),
        )
        if weights:
            _check_weights(path, config["sha256"])
            directory.model = load_model(path / WEIGHTS)
            directory._check_sizes()
        return directory

    @classmethod
    def open(cls, model: "FilePath | ModelDirectory | HasModelDirectory", weights: bool = True) -> "ModelDirectory":
        """Returns the directory of a model that is given as a path, a directory or an object with a directory.

        Args:
            model: path of a model directory, or the name of a packaged model, which is loaded; a
                `ModelDirectory`, which is returned as it is; or an object whose attribute `directory` is a
                `ModelDirectory`, such as a `TextScorer`.
            weights: bool. See `load`.

        Raises:
            InputError: see `load`.
            ValueError: for another object.
        """
        if isinstance(model, str | os.PathLike):
            return cls.load(model, weights)
        directory = model if isinstance(model, ModelDirectory) else getattr(model, "directory", None)
        if directory is None:
            raise ValueError(f"found the model {model!r}, expected the path of a model directory, or a ModelDirectory")
        return directory

    def path_elsewhere(self, model: "FilePath | ModelDirectory | HasModelDirectory") -> FilePath:
        """Returns the path by which a process in another folder or on another machine opens a model.

        Args:
            model: what this directory was opened from, see `open`.

        Returns:
            The URL as it was given, which each machine copies for itself; otherwise the absolute path of the directory.
        """
        return model if isinstance(model, str | os.PathLike) and is_url(model) else self.path.absolute()

    def reordered(self, sides: tuple[_Side, _Side]) -> tuple[_Side, _Side]:
        """Changes the order of two sides from the user's to the model's, or back: a reverse model swaps them."""
        return sides[::-1] if self.reverse else sides

    @property
    def user_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of the source and the target as the user names the sides."""
        return self.reordered((self.source_vocabulary, self.target_vocabulary))

    def character_counts(self) -> dict[str, int]:
        """Returns the number of characters of each side that has them, by the name of the model's argument."""
        sides = {"source_characters": self.source_vocabulary, "target_characters": self.target_vocabulary}
        return {name: len(side.characters) for name, side in sides.items() if side.characters is not None}

    def checksums(self) -> dict[str, str]:
        """Returns the SHA-256 checksum of each file that determines what the model computes, by its name."""
        names = (name for name in (*VOCABULARIES, WEIGHTS) if (self.path / name).exists())
        return {name: file_checksum(self.path / name) for name in names}

    def _check_sizes(self) -> None:
        for name, vocabulary, words in (
            (SOURCE_VOCABULARY, self.source_vocabulary, self.model.source_words),
            (TARGET_VOCABULARY, self.target_vocabulary, self.model.target_words),
        ):
            if len(vocabulary) != words:
                expected = f"expected {words}, the number of words that the weights in {WEIGHTS} have"
                remedy = "put back the vocabulary the model was trained with"
                raise InputError(f"found {counted(len(vocabulary), 'words')}", expected, remedy, self.path / name)
        for argument, count in self.character_counts().items():
            if count != getattr(self.model, argument, None):
                raise InputError(
                    f"found {count} {argument.replace('_', ' ')}",
                    f"expected {getattr(self.model, argument, None)}, the number that the weights in {WEIGHTS} have",
                    "put back the characters the model was trained with",
                    self.path,
                )


# The file of the characters of each vocabulary.
_CHARACTERS = {SOURCE_VOCABULARY: SOURCE_CHARACTERS, TARGET_VOCABULARY: TARGET_CHARACTERS}


class HasModelDirectory(Protocol):
    """An object that works with a loaded model directory, such as a `TextScorer`."""

    directory: ModelDirectory


def load_model(path: str | os.PathLike, compiled: bool = False) -> TranslationModel:
    """Loads a `.keras` file of a translation model.

    Args:
        path: path of the file or of its model directory, or the name of a packaged model.
        compiled: bool. Whether to load the optimizer, too. Defaults to `False`.

    Raises:
        InputError: if the file does not exist, cannot be read, or is not a model of this package, and if the
            temporary folder has no room for the weights of a pruned model.
        FileNotFoundError: if the model is pruned, and no folder for temporary files is writable.
        MemoryError: if there is too little memory for the model.
    """
    path = path / WEIGHTS if (path := model_path(path)).is_dir() else path
    check_has_weights(path)
    try:
        with dense_file(path) as dense, weights_will_be_loaded():
            model = keras.saving.load_model(dense, compile=compiled)
    except (FileNotFoundError, MemoryError):
        raise
    except Exception as error:  # Keras, zip and HDF5 raise many kinds of errors for damaged files
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            with explained(tempfile.gettempdir(), f"to expand the weights of {path}, a pruned model"):
                raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if isinstance(error, UnknownChoiceError) or reason.startswith("Could not locate class"):
            raise InputError(
                f"found a model that cannot be built here ({reason.partition('. Make sure')[0]})",
                "expected classes, cells and attentions that are registered",
                "in your own program, import the module that registers yours before you load the model",
                path,
            ) from error
        if not zipfile.is_zipfile(path):  # Keras reports such a file as missing
            reason = "not a zip archive, or one that was cut short"
        raise InputError(
            f"found a file that cannot be loaded ({reason})",
            f"expected weights saved by keras-encdec {__version__}",
            "train the model again, or copy it again from where it worked",
            path,
        ) from error
    if not isinstance(model, TranslationModel):
        found = f"found a model of the class {type(model).__name__}"
        expected = "expected a translation model of this package"
        raise InputError(found, expected, "put back the file that encdec-train made", path)
    if not all(np.isfinite(ops.convert_to_numpy(weight)).all() for weight in model.weights):
        remedy = "the training diverged: train again with a lower --learning_rate"
        raise InputError("found weights that are infinite or not a number", "expected finite numbers", remedy, path)
    return model


def _check_vocabularies(folder: pathlib.Path, checksums: Mapping[str, str]) -> None:
    """Checks that the vocabularies are those of the training.

    With other words, or the same words in another order, the model's ids would mean the wrong words.
    """
    expected = {name: checksum for name, checksum in checksums.items() if name != WEIGHTS}
    for name, checksum in expected.items():
        if not (folder / name).is_file():
            expected_file, remedy = "expected this part of the model", "copy the whole directory again"
            raise InputError("found no such file", expected_file, remedy, folder / name)
        found = file_checksum(folder / name)
        if found != checksum:
            taken = next((other for other in expected if expected[other] == found), None)
            raise _changed(folder / name, f"found the content of {taken}" if taken else "", checksum)


def _check_weights(folder: pathlib.Path, checksums: Mapping[str, str]) -> None:
    """Checks that the weights are those of the training.

    The weights of another model of the same sizes would load without an error, and give wrong results.
    """
    for _ in range(3):
        expected = checksums.get(WEIGHTS, [])
        if not expected or not (folder / WEIGHTS).is_file() or file_checksum(folder / WEIGHTS) in expected:
            return
        # A training that is running may have replaced the weights and their checksum since `checksums` was read.
        checksums = read_model_config(folder)["sha256"]
    raise _changed(folder / WEIGHTS, "", expected[0])


def _changed(path: pathlib.Path, found: str, checksum: str) -> InputError:
    expected = f"expected the file with the SHA-256 checksum {checksum}"
    remedy = "put back the file, or copy the whole directory again"
    return InputError(found or "found a file that has changed since the model was trained", expected, remedy, path)
