"""Manages the labels and versions of a served model in `models.config`, the configuration file of its server."""

import os
import pathlib
import re

from google.protobuf import text_format

from keras_encdec.errors import FilePath, InputError, shown_path
from keras_encdec.export.versions import MODELS_CONFIG, export_folder, locked, remove_folder, version_folder, versions
from keras_encdec.runtime.files import is_url, joined
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.remote import remove_remote

try:
    from tensorflow_serving.config import model_server_config_pb2
except ImportError as error:
    raise ImportError(
        f"Exporting needs tensorflow-serving-api, which is not installed ({error}): "
        'pip install "keras-encdec[serving]".'
    ) from error


STABLE, CANARY = "stable", "canary"
# Begins a comment that names a model whose path on the server was given, so that later exports keep that path.
_RELOCATED = "# --base_path was given for "
# Skips texts in quotation marks, which may contain the character that begins a comment.
_COMMENT = re.compile(r"""^(?:[^"'#\n]|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')*(#.*)$""", re.MULTILINE)


class ModelsConfig:
    """The `models.config` of an export folder: the served models and the labels of their versions.

    The label `stable` stays at its version until the user moves it; `canary` is the newest exported version. The server
    serves every version whose folder exists. It moves a label only to a version that it has already loaded, and
    rejects the whole file if it cannot move a label, or if a label names a version that does not exist.

    `write` removes labels of versions that do not exist. It sets the path, platform, version policy and these two
    labels of this model, and keeps the rest of the file. Comments move to its beginning.

    Args:
        export_dir: path of the folder of the versions.
        name: str. The model's name.
        base_path: str. Path of the folder on the server, if it differs, as in a container; a comment in the file
            records that it was given. Defaults to `None`: the path that was given before; otherwise `export_dir`, or
            its URL if it is a copy of a remote folder.

    Raises:
        InputError: if the file cannot be read or parsed, or names another model for this folder, and for names that are
            not UTF-8.
    """

    def __init__(self, export_dir: str | os.PathLike[str], name: str, base_path: str | None = None) -> None:
        self._folder = pathlib.Path(export_dir)
        self._path = self._folder / MODELS_CONFIG
        self._file = model_server_config_pb2.ModelServerConfig()
        self._relocated: list[str] = []
        self._comments: list[str] = []
        try:
            text = self._path.read_text(encoding="utf-8")
            text_format.Parse(text, self._file)
            self._relocated = re.findall(f"^{re.escape(_RELOCATED)}(.*)$", text, re.MULTILINE)
            self._comments = [found for found in _COMMENT.findall(text) if not found.startswith(_RELOCATED)]
        except FileNotFoundError:
            pass
        except (text_format.ParseError, UnicodeDecodeError) as error:
            expected = "expected TensorFlow Serving's ModelServerConfig"
            remedy = "correct it, or remove it: the next export writes a new one"
            raise InputError(f"found a file that cannot be parsed ({error})", expected, remedy, self._path) from None
        except OSError as error:
            found, expected = f"found a file that cannot be read ({error.strerror})", "expected a text file"
            raise InputError(found, expected, "check --export_dir", self._path) from None
        if self._file.WhichOneof("config") == "custom_model_config":
            raise InputError(
                "found a custom_model_config", "expected a model_config_list", "remove the file", self._path
            )
        models = self._file.model_config_list.config
        address = shown_path(os.path.abspath(self._folder))
        try:
            f"{address}{name}{base_path}".encode()
        except UnicodeEncodeError:
            found = "found bytes that are not UTF-8 in the path of the export or the name of the model"
            expected = "expected UTF-8, which TensorFlow and its server need"
            raise InputError(found, expected, "give another name", self._folder) from None
        existing = [model.name for model in models if model.base_path == address] + self._relocated
        if existing and name not in existing:
            found = f"found the model {existing[0]!r} for this folder"
            raise InputError(found, f"expected {name!r}", f"give --model_name={existing[0]}", self._path)
        self._model = next((model for model in models if model.name == name), None) or models.add(name=name)
        if base_path is not None:
            self._model.base_path = base_path
            self._relocated = [name]
        elif name not in self._relocated:
            # A server requires an absolute path.
            self._model.base_path = address

    @property
    def given_base_path(self) -> str | None:
        """Path of the folder on the server, if it was given for this or an earlier version; otherwise `None`."""
        return self._model.base_path if self._model.name in self._relocated else None

    @property
    def stable(self) -> int:
        """The version with the label `stable`; 0 if there is none."""
        return int(self._model.version_labels.get(STABLE, 0))

    @property
    def canary(self) -> int:
        """The version with the label `canary`; 0 if there is none."""
        return int(self._model.version_labels.get(CANARY, 0))

    @property
    def largest_labelled(self) -> int:
        """The largest version with a label, even if the version no longer exists; 0 if there is none."""
        return max(self._model.version_labels.values(), default=0)

    def write(self, stable: int | None = None, canary: int | None = None, without: int | None = None) -> pathlib.Path:
        """Writes the file, and returns its path. Labels that are not given stay, except those of `without`."""
        model = self._model
        model.ClearField("model_type")
        model.model_platform = "tensorflow"
        model.model_version_policy.all.SetInParent()
        for label, version in ((STABLE, stable), (CANARY, canary)):
            if version:
                model.version_labels[label] = version
        remaining = set(versions(self._folder)) - {without}
        for label in [label for label, version in model.version_labels.items() if version not in remaining]:
            del model.version_labels[label]
        comments = [*self._comments, *(f"{_RELOCATED}{name}" for name in self._relocated)]
        text = "".join(f"{comment}\n" for comment in comments) + text_format.MessageToString(self._file)
        write_file(self._path, text.encode())
        return self._path


def move_stable_label(export_dir: FilePath, model_name: str, version: int, base_path: str | None = None) -> FilePath:
    """Moves the label `stable` to a version, see `ModelsConfig`. A server that polls `models.config` then follows.

    Returns:
        pathlib.Path of `models.config`; for a remote folder its URL, a str.

    Raises:
        InputError: if there is no such version, or `models.config` names another model for the folder.
    """
    with export_folder(export_dir) as folder:
        version_folder(folder, version)
        with locked(folder):
            path = ModelsConfig(folder, model_name, base_path).write(stable=version)
    return joined(export_dir, MODELS_CONFIG) if is_url(export_dir) else path


def remove_version(export_dir: FilePath, model_name: str, version: int, base_path: str | None = None) -> None:
    """Removes the labels of a version from `models.config`, see `ModelsConfig`, and then its folder.

    Raises:
        InputError: if there is no such version, it has the label `stable`, or `models.config` names another model for
            the folder.
    """
    with export_folder(export_dir) as folder:
        version_folder(folder, version)
        with locked(folder):
            labels = ModelsConfig(folder, model_name, base_path)
            if labels.stable == version:
                found, expected = f"found the label stable at version {version}", "expected a version without it"
                raise InputError(found, expected, "move the label first (--stable_version)", folder)
            labels.write(without=version)
            remove_folder(folder, version)
    if is_url(export_dir):  # after the configuration without its labels has been uploaded
        remove_remote(joined(export_dir, f"{version}"))
