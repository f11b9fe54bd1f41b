"""The `models.config` of an export folder, which TensorFlow Serving is started with."""

import os
import pathlib

from google.protobuf import text_format

from keras_encdec.errors import InputError
from keras_encdec.export.versions import versions
from keras_encdec.formats import open_output

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
