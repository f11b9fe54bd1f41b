"""The files that TensorFlow Serving is started with: `models.config` and `batching_parameters.txt`."""

import os
import pathlib

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from keras_encdec.errors import InputError
from keras_encdec.export.versions import locked, versions
from keras_encdec.formats import open_output

MODELS, BATCHING = "models.config", "batching_parameters.txt"
STABLE, CANARY = "stable", "canary"
# The largest is the largest batch, as the server demands.
BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


class ModelsConfig:
    """The `models.config` of an export folder: what is served, and what its versions are called.

    Every version whose folder is there is served: a server moves a label only to a version that it has
    loaded already, and reads no further in a file whose labels it cannot move. The label `stable` stays
    at a version until it is moved; `canary` is the newest exported. Of this model the path, platform,
    policy of versions and these two labels are written; whatever else stands in the file stays, but for
    comments.

    Args:
        export_dir: path of the folder of the versions.
        name: str. The model's name.

    Raises:
        InputError: when the file is there and is none.
    """

    def __init__(self, export_dir, name):
        self._folder = pathlib.Path(export_dir)
        self._path = self._folder / MODELS
        self._file = model_server_config_pb2.ModelServerConfig()
        try:
            text_format.Parse(self._path.read_text(encoding="utf-8"), self._file)
        except FileNotFoundError:
            pass
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise InputError(
                f"found a file that does not read ({error})", "expected TensorFlow Serving's ModelServerConfig",
                "correct it, or remove it to have it written anew", self._path,
            ) from None  # fmt: skip
        except OSError as error:
            raise InputError(
                f"could not be read ({error.strerror})", "", "check --export_dir", self._path
            ) from None
        if self._file.WhichOneof("config") == "custom_model_config":
            raise InputError(
                "found a custom_model_config", "expected a model_config_list", "remove the file", self._path
            )
        models = self._file.model_config_list.config
        here = [model.name for model in models if model.base_path == os.path.abspath(self._folder)]
        if here and name not in here:
            raise InputError(
                f"found the model {here[0]!r} for this folder", f"expected {name!r}",
                f"give --model_name={here[0]}", self._path,
            )  # fmt: skip
        self._model = next((model for model in models if model.name == name), None) or models.add(name=name)

    @property
    def stable(self):
        """int. The version labelled so, 0 if none is."""
        return self._model.version_labels.get(STABLE, 0)

    @property
    def largest_labelled(self):
        """int. The largest version that has a label, whether or not it is still there; 0 if none has."""
        return max(self._model.version_labels.values(), default=0)

    def write(self, stable, canary=None):
        """Writes the file with these versions under their labels; `None` leaves the label where it is."""
        model = self._model
        model.ClearField("model_type")
        # A server wants it absolute.
        model.base_path, model.model_platform = os.path.abspath(self._folder), "tensorflow"
        model.model_version_policy.all.SetInParent()
        model.version_labels[STABLE] = stable
        if canary:
            model.version_labels[CANARY] = canary
        with open_output(self._path) as file:
            file.write(text_format.MessageToString(self._file).encode())


def move_stable(export_dir, name, version):
    """Makes another version the stable one, for a server that reads `models.config` again.

    Args:
        export_dir: path of the folder of the versions.
        name: str. The model's name.
        version: int.

    Raises:
        InputError: when there is no such version, or the folder is another model's.
    """
    found = versions(export_dir)
    if version not in found:
        listed = ", ".join(map(str, found)) or "none"
        raise InputError(f"found no version {version}", f"expected one of those there ({listed})", "", export_dir)
    with locked(export_dir):
        ModelsConfig(export_dir, name).write(version)


def write_batching_parameters(export_dir):
    """Writes how the server merges requests, unless such a file is there: its numbers are the user's to set."""
    path = pathlib.Path(export_dir) / BATCHING
    if path.exists():
        return
    sizes = "".join(f"allowed_batch_sizes: {size}\n" for size in BATCH_SIZES)
    text = f"""# For tensorflow_model_server --enable_batching --batching_parameters_file=.../{BATCHING}
# Pairs in a batch: a request of more is refused. The last allowed size must be the same.
max_batch_size {{ value: {BATCH_SIZES[-1]} }}
{sizes}# How long a request waits for others, in microseconds.
batch_timeout_micros {{ value: 1000 }}
# As many as the server has cores: here those of the machine that exported.
num_batch_threads {{ value: {os.cpu_count()} }}
# Further requests are UNAVAILABLE.
max_enqueued_batches {{ value: 1000 }}
"""
    with open_output(path) as file:
        file.write(text.encode())
