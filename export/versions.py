"""The numbered version folders of a served model: created, described, checked and removed, without TensorFlow."""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import re
import secrets
import shutil
from collections.abc import Iterator
from typing import NamedTuple

from keras_encdec.errors import FilePath, InputError
from keras_encdec.model_config import WEIGHTS, check_has_weights, tasks_of
from keras_encdec.runtime.files import file_checksum, flush_to_disk, is_url
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.settings_files import read_parsed
from keras_encdec.runtime.unfinished import new_folder, temporary_folder_beside
from keras_encdec.trained_model import TrainedModel

MODELS_CONFIG = "models.config"
# The server's version numbers are signed 64-bit integers.
MAX_VERSION = 2**63 - 1


def versions(export_dir: str | os.PathLike[str]) -> list[int]:
    """Lists the numbers of the versions in a folder, in ascending order. Raises InputError for a file."""
    if os.path.isfile(export_dir):
        raise InputError("found a file", "expected the folder of exported versions", "check the path", export_dir)
    with contextlib.suppress(FileNotFoundError):
        folders = [path for path in pathlib.Path(export_dir).iterdir() if path.is_dir()]
        return sorted(int(path.name) for path in folders if re.fullmatch("[1-9][0-9]*", path.name, re.ASCII))
    return []


def version_folder(export_dir: str | os.PathLike[str], version: int | None = None) -> pathlib.Path:
    """Returns the folder of a version among those in `export_dir`; without a number, of the newest.

    Raises:
        InputError: if there is no such version, or the folder is itself a version.
    """
    existing = versions(export_dir)
    number = max(existing, default=None) if version is None else version
    if number not in existing and os.path.exists(os.path.join(export_dir, "saved_model.pb")):
        above = os.path.normpath(os.path.join(export_dir, os.pardir))
        remedy = f"give the directory above, {above}"
        raise InputError("found a single version", "expected the folder of all versions", remedy, export_dir)
    if number not in existing:
        raise InputError(
            f"found version{'s' * (len(existing) > 1)} {', '.join(map(str, existing))}"
            if existing
            else "found no version",
            "expected at least one" if number is None else f"expected version {number}",
            "give a version that exists" if existing else "export one first (encdec-export)",
            export_dir,
        )
    return pathlib.Path(export_dir) / str(number)


@contextlib.contextmanager
def export_folder(export_dir: FilePath) -> Iterator[pathlib.Path]:
    """Yields the folder of the versions; for a URL, a copy of it on this machine, whose new files are then uploaded.

    The copy has the configuration files, and an empty folder for each version. The graph of a new version is uploaded
    after its weights, and the configuration last.

    Raises:
        InputError: if the store cannot be read or written.
    """
    if not is_url(export_dir):
        yield pathlib.Path(export_dir)
        return
    last = ["saved_model.pb", MODELS_CONFIG]
    with StagedFolder(os.fspath(export_dir), existing=True, last=last, only=lambda name: "/" not in name) as folder:
        yield folder


def check_new_version(export_dir: str | os.PathLike[str], version: int | None) -> None:
    """Checks that a version may be created, with this number or the next one, in a folder that need not exist.

    Raises:
        InputError: if that version exists, or its number is too small or too large for a server.
    """
    export_dir = pathlib.Path(export_dir)
    if version is not None and not 1 <= version <= MAX_VERSION:
        raise _out_of_range(version, export_dir)
    if version and os.path.lexists(export_dir / str(version)):
        raise _version_exists(export_dir / str(version))


@dataclasses.dataclass
class NewVersion:
    """A version while it is written.

    Attributes:
        path: pathlib.Path of the empty folder to fill.
        number: int. Number of the version; 0 until it is published.
    """

    path: pathlib.Path
    number: int = 0


@contextlib.contextmanager
def new_version(export_dir: str | os.PathLike[str], version: int | None = None, above: int = 0) -> Iterator[NewVersion]:
    """Creates a version, which appears under its number when the `with` block ends.

    A server that polls the folder never sees an unfinished version: the block writes to a hidden folder, which is then
    flushed to disk and renamed. After an exception, the hidden folder is removed, and so is `export_dir` if it is new.
    If the process is killed, the next export removes the hidden folder. An existing version is not overwritten.

    Args:
        export_dir: path of the folder of the versions; it is created if it does not exist.
        version: int. Number of the version. Defaults to `None`: one more than the newest.
        above: int. Without a `version`, the new number is also larger than this. Defaults to `0`.

    Raises:
        InputError: if that version exists, or its number is too small or too large for a server.
    """
    with contextlib.ExitStack() as stack:
        export_dir = stack.enter_context(new_folder(export_dir))
        check_new_version(export_dir, version)
        with locked(export_dir):  # so that no other export takes the new folder for one that a killed process left
            folder = stack.enter_context(temporary_folder_beside(f"{export_dir}/version"))
        made = NewVersion(pathlib.Path(folder))
        yield made
        _flush(made.path)
        made.number = _published(made.path, export_dir, version, above)
        flush_to_disk(export_dir)


def remove_folder(export_dir: str | os.PathLike[str], version: int) -> None:
    """Removes a version. It is renamed first, so that no server sees an incomplete version."""
    export_dir = pathlib.Path(export_dir)
    hidden = export_dir / f".version.{secrets.token_hex(4)}.tmp"
    os.rename(export_dir / str(version), hidden)
    shutil.rmtree(hidden)


@contextlib.contextmanager
def locked(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Locks a folder during the `with` block; if another process holds the lock, waits for it first."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _published(path: pathlib.Path, export_dir: pathlib.Path, version: int | None, above: int) -> int:
    with locked(export_dir):
        number = version or max([*versions(export_dir), above]) + 1
        if number > MAX_VERSION:
            raise _out_of_range(number, export_dir)
        if os.path.lexists(export_dir / str(number)):
            raise _version_exists(export_dir / str(number))
        os.rename(path, export_dir / str(number))
        return number


def _out_of_range(number: int, export_dir: pathlib.Path) -> InputError:
    expected = f"expected 1 to {MAX_VERSION}"
    return InputError(f"found {number} for the new version", expected, "give another --version", export_dir)


def _version_exists(path: pathlib.Path) -> InputError:
    found = "found an existing version"
    return InputError(found, "expected a new number", "give another --version, or omit it to use the next number", path)


def _flush(folder: pathlib.Path) -> None:
    for parent, _, names in os.walk(folder):
        for name in names:
            flush_to_disk(os.path.join(parent, name))
        flush_to_disk(parent)


DESCRIPTION = "keras_encdec.json"
TOKENS, RAW_TEXT = "tokens separated by spaces", "raw text"
# Maximum number of tokens of a phrase, unless an export sets another; early descriptions do not contain it.
MAX_TOKENS = 256
#: Forms in which the weights of a version may be stored.
WEIGHT_FORMS = ("float32", "bfloat16", "int8")


class Description(NamedTuple):
    """The description of a version, written by its export.

    Attributes:
        tokenization: dict of arguments of `Tokenizer`; `None` if the version reads tokens.
        weights: str. The form in which its weights are stored, see `ServingConfig`.
        checksums: dict from path within the folder to SHA-256 checksum; empty if an early version of this package
            exported the model.
        model_weights: str. SHA-256 checksum of the weights file of the model that was exported; `None` if an earlier
            version of this package exported it.
        max_tokens: int. Maximum number of tokens of a phrase.
    """

    tokenization: dict[str, bool] | None
    weights: str
    checksums: dict[str, str]
    model_weights: str | None
    max_tokens: int


def read_description(version: pathlib.Path) -> Description:
    """Reads a version's description.

    Raises:
        InputError: if the description is missing or cannot be parsed.
    """
    path = version / "assets.extra" / DESCRIPTION
    try:
        description = read_parsed(path, json.loads)
        reads, tokenization = description["reads"], description["tokenization"]
        checksums, weights = description.get("sha256", {}), description.get("weights", "float32")
        if not all(isinstance(value, str) and _is_within(name) for name, value in checksums.items()):
            raise ValueError("its checksums are not strings by path")
        if weights not in WEIGHT_FORMS:
            raise ValueError(f"its weights are {weights!r}")
        model_weights = description.get("model_weights")
        if not isinstance(model_weights, str | None):
            raise ValueError("its model_weights is not a checksum")
        max_tokens = description.get("max_tokens", MAX_TOKENS)
        if type(max_tokens) is not int or max_tokens < 1:
            raise ValueError(f"its max_tokens is {max_tokens!r}")
        tokenization = dict(tokenization) if reads == RAW_TEXT else None
        return Description(tokenization, weights, checksums, model_weights, max_tokens)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        found = f"found no valid description of the version ({error})"
        raise InputError(found, "expected the file that encdec-export writes", "export the model again", path) from None


def version_checksums(version: pathlib.Path) -> dict[str, str]:
    """Computes the SHA-256 checksums of a version's graph, weights and vocabularies, by path within the folder."""
    return {file.relative_to(version).as_posix(): file_checksum(file) for file in sorted(_served_files(version))}


def check_unchanged(version: pathlib.Path) -> None:
    """Checks that no file of a version has changed since it was exported.

    Versions exported by early versions of this package have no checksums, and pass.

    Raises:
        InputError: if a file has changed or is missing, or the description cannot be parsed.
    """
    for name, expected in read_description(version).checksums.items():
        if file_checksum(version / name) != expected:
            raise InputError(
                "found a file that has changed since the model was exported",
                f"expected the file with the SHA-256 checksum {expected}",
                "restore the file, or export the model again",
                version / name,
            )


def check_exported_from(model: TrainedModel, version: pathlib.Path) -> None:
    """Checks that a version was exported from a model, by the checksum of the model's weights.

    Versions exported by earlier versions of this package do not have the checksum, and pass.

    Raises:
        InputError: for another model, or if its weights or the description cannot be read.
    """
    exported = read_description(version).model_weights
    check_has_weights(model.path / WEIGHTS)
    if exported is not None and file_checksum(model.path / WEIGHTS) != exported:
        expected = f"expected the model that {version} was exported from"
        remedy = f"check --model_dir{' and --task' * bool(tasks_of(model.path))}, or export this model again"
        raise InputError("found weights that differ from the exported ones", expected, remedy, model.path / WEIGHTS)


def _served_files(version: pathlib.Path) -> Iterator[pathlib.Path]:
    yield version / "saved_model.pb"
    for folder in ("variables", "assets"):
        yield from (file for file in (version / folder).rglob("*") if file.is_file())


def _is_within(name: str) -> bool:
    path = pathlib.PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
