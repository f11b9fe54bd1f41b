"""Numbered versions of a served model: a folder each, whole or not there."""

import contextlib
import errno
import fcntl
import os
import pathlib
import re
import secrets
import shutil

from keras_encdec.errors import InputError

# The server's numbers are signed, of 64 bits.
LARGEST = 2**63 - 1
# In a version's folder, beside the graph: what it reads, for people and for encdec-verify.
DESCRIPTION = "keras_encdec.json"


def versions(export_dir):
    """The versions in a folder, ascending: list of int."""
    with contextlib.suppress(FileNotFoundError):
        found = [path for path in pathlib.Path(export_dir).iterdir() if path.is_dir()]
        return sorted(int(path.name) for path in found if re.fullmatch("[1-9][0-9]*", path.name, re.ASCII))
    return []


class NewVersion:
    """A version in the making.

    Attributes:
        path: pathlib.Path of the folder to fill, which does not exist yet.
        number: int. The version, when it is there.
    """

    def __init__(self, path):
        self.path, self.number = path, None


@contextlib.contextmanager
def new_version(export_dir, version=None, above=0):
    """Makes a version, which appears under its number when it is complete.

    A server that polls the folder never sees half of it: what is written goes to a hidden folder beside
    it, is flushed to the disk, and renamed at the end of the `with` block. After any exception nothing
    is left. A version that is there is not overwritten.

    Args:
        export_dir: path, made if need be.
        version: int. Defaults to `None`: one more than the newest.
        above: int. A number that the newest has at least, whether or not it is still there. Defaults to `0`.

    Yields:
        NewVersion.

    Raises:
        InputError: when that version exists.
    """
    export_dir = pathlib.Path(export_dir)
    export_dir.mkdir(parents=True, exist_ok=True)
    if version and os.path.lexists(export_dir / str(version)):
        raise _taken(export_dir / str(version))
    made = NewVersion(export_dir / f".version.{secrets.token_hex(4)}.tmp")
    try:
        yield made
        _flush(made.path)
        made.number = _published(made.path, export_dir, version, above)
        _sync(export_dir)
    finally:
        shutil.rmtree(made.path, ignore_errors=True)


@contextlib.contextmanager
def locked(export_dir):
    """Keeps others who lock the folder out, for the time of the `with` block."""
    descriptor = os.open(export_dir, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _published(path, export_dir, version, above):
    with locked(export_dir):
        number = version or max([*versions(export_dir), above]) + 1
        if os.path.lexists(export_dir / str(number)):
            raise _taken(export_dir / str(number))
        os.rename(path, export_dir / str(number))
        return number


def _taken(path):
    return InputError(
        "found this version there already", "expected a new one",
        "leave --version out for the next number, or name another", path,
    )  # fmt: skip


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
