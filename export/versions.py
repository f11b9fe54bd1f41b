"""Numbered versions of a served model: a folder each, whole or not there."""

import contextlib
import os
import pathlib
import secrets
import shutil

from keras_encdec.errors import InputError


def versions(export_dir):
    """The versions in a folder, ascending: list of int; other names are passed over, as a server does."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(int(path.name) for path in pathlib.Path(export_dir).iterdir() if path.name.isdecimal())
    return []


@contextlib.contextmanager
def new_version(export_dir, version=None):
    """Makes a version, which appears under its number when it is complete.

    A server that polls the folder never sees half of it: what is written goes to a hidden folder beside
    it, is flushed to the disk, and renamed at the end of the `with` block. After any exception nothing
    is left. A version that is there is not overwritten.

    Args:
        export_dir: path, made if need be.
        version: int. Defaults to `None`: one more than the newest.

    Yields:
        tuple: pathlib.Path of the folder to fill, which does not exist yet, and the number.

    Raises:
        InputError: when that version exists.
    """
    export_dir = pathlib.Path(export_dir)
    export_dir.mkdir(parents=True, exist_ok=True)
    number = version or max(versions(export_dir), default=0) + 1
    _check_absent(export_dir / str(number))
    unfinished = export_dir / f".{number}.{secrets.token_hex(4)}.tmp"
    try:
        yield unfinished, number
        _flush(unfinished)
        _check_absent(export_dir / str(number))
        # Over a folder that is not empty a rename fails, so of two exports at a time one says so.
        os.rename(unfinished, export_dir / str(number))
        _sync(export_dir)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _check_absent(path):
    if path.exists():
        raise InputError(
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
    finally:
        os.close(descriptor)
