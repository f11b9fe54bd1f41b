"""Numbered versions of a served model: a folder each, whole or not there."""

import contextlib
import errno
import fcntl
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Iterator

from google.protobuf import text_format

from keras_encdec.errors import InputError
from keras_encdec.formats import open_output
from keras_encdec.runtime.unfinished import unfinished

# The server's numbers are signed, of 64 bits.
LARGEST = 2**63 - 1


def versions(export_dir: str | os.PathLike) -> list[int]:
    """The versions in a folder, ascending."""
    with contextlib.suppress(FileNotFoundError):
        folders = [path for path in pathlib.Path(export_dir).iterdir() if path.is_dir()]
        return sorted(int(path.name) for path in folders if re.fullmatch("[1-9][0-9]*", path.name, re.ASCII))
    return []


class NewVersion:
    """A version in the making.

    Attributes:
        path: pathlib.Path of the folder to fill, which is empty.
        number: int. The version, when it is there.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path: pathlib.Path = path
        self.number: int | None = None


@contextlib.contextmanager
def new_version(export_dir: str | os.PathLike, version: int | None = None, above: int = 0) -> Iterator[NewVersion]:
    """Makes a version, which appears under its number when it is complete.

    A server that polls the folder never sees half of it: what is written goes to a hidden folder beside
    it, is flushed to the disk, and renamed at the end of the `with` block. After any exception nothing
    is left; what a process left that was killed, the next one removes. A version that is there is not overwritten.

    Args:
        export_dir: path, made if need be.
        version: int. Defaults to `None`: one more than the newest.
        above: int. A number that the newest has at least, whether or not it is still there. Defaults to `0`.

    Yields:
        NewVersion.

    Raises:
        InputError: when that version exists, or no server takes its number.
    """
    export_dir = pathlib.Path(export_dir)
    export_dir.mkdir(parents=True, exist_ok=True)
    if version is not None and not 1 <= version <= LARGEST:
        raise _out_of_range(version, export_dir)
    if version and os.path.lexists(export_dir / str(version)):
        raise _taken(export_dir / str(version))
    made = NewVersion(export_dir / f".version.{secrets.token_hex(4)}.tmp")
    with contextlib.ExitStack() as stack:
        stack.enter_context(unfinished(made.path))
        try:
            with locked(export_dir):
                _remove_abandoned(export_dir)
                made.path.mkdir()
                # For as long as this process lives it says that somebody is at work there.
                stack.enter_context(locked(made.path))
            yield made
            _flush(made.path)
            made.number = _published(made.path, export_dir, version, above)
            _sync(export_dir)
        finally:
            shutil.rmtree(made.path, ignore_errors=True)


def remove_folder(export_dir: str | os.PathLike, version: int) -> None:
    """Removes a version: at once for who looks at the folder, then from the disk."""
    export_dir = pathlib.Path(export_dir)
    gone = export_dir / f".version.{secrets.token_hex(4)}.tmp"
    os.rename(export_dir / str(version), gone)
    shutil.rmtree(gone)


def _remove_abandoned(export_dir):
    """Removes what killed processes left; the folder is locked."""
    for path in export_dir.glob(".version.*.tmp"):
        with contextlib.suppress(OSError), locked(path, wait=False):
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: str | os.PathLike, wait: bool = True) -> Iterator[None]:
    """Keeps others who lock the folder out, for the time of the `with` block.

    Args:
        folder: path.
        wait: bool. Whether to wait while another has locked it. Defaults to `True`.

    Raises:
        BlockingIOError: when another has, and there is no waiting.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _published(path, export_dir, version, above):
    with locked(export_dir):
        number = version or max([*versions(export_dir), above]) + 1
        if number > LARGEST:
            raise _out_of_range(number, export_dir)
        if os.path.lexists(export_dir / str(number)):
            raise _taken(export_dir / str(number))
        os.rename(path, export_dir / str(number))
        return number


def _out_of_range(number, export_dir):
    expected = f"expected 1 to {LARGEST}"
    return InputError(f"found {number} for the new version", expected, "name another --version", export_dir)


def _taken(path):
    return InputError(
        "found this version there already",
        "expected a new one",
        "leave --version out for the next number, or name another",
        path,
    )


def _flush(folder):
    for parent, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(parent, name))
        _sync(parent)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot flush folders
            raise
    finally:
        os.close(descriptor)


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
    """The `models.config` of an export folder: what is served, and what its versions are called.

    Every version whose folder is there is served: a server moves a label only to a version that it has
    loaded already, and reads no further in a file whose labels it cannot move. The label `stable` stays
    at a version until it is moved; `canary` is the newest exported. A label of a version that is not there would keep
    a server from reading on, too, and is left out when the file is written. Of this model the path, platform, policy of
    versions and these two labels are written; whatever else stands in the file stays, but for comments.

    Args:
        export_dir: path of the folder of the versions.
        name: str. The model's name.

    Raises:
        InputError: when the file is there and is none.
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
        """int. The version labelled so, 0 if none is."""
        return self._model.version_labels.get(STABLE, 0)

    @property
    def canary(self) -> int:
        """int. The version labelled so, 0 if none is."""
        return self._model.version_labels.get(CANARY, 0)

    @property
    def largest_labelled(self) -> int:
        """int. The largest version that has a label, whether or not it is still there; 0 if none has."""
        return max(self._model.version_labels.values(), default=0)

    def write(self, stable: int | None = None, canary: int | None = None, without: int | None = None) -> pathlib.Path:
        """Writes the file.

        Args:
            stable, canary: int. The versions under these labels. Default to `None`: as they are.
            without: int. A version that is about to go, and has no label any more. Optional.

        Returns:
            path of the file.
        """
        model = self._model
        model.ClearField("model_type")
        # A server wants it absolute.
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
