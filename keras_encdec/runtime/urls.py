"""Recognizes URLs among paths, and rejects them where only a local path works."""

import os
import re

from keras_encdec.errors import FilePath, InputError

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_PATH_OF_URL = re.compile(r"([a-z][a-z0-9+.-]+):/[^/]")
_PROTOCOLS = ("s3", "s3a", "gs", "gcs", "hdfs", "hf", "http", "https", "memory", "file", "abfs", "az")


def is_url(path: FilePath | None) -> bool:
    """Returns whether a path is a URL.

    Raises:
        InputError: for a URL in a `pathlib.Path`, which has dropped one of its slashes.

    Example:

    >>> is_url("s3://bucket/table.gz"), is_url("tables/table.gz"), is_url("-")
    (True, False, False)
    """
    if path is None:
        return False
    text = os.fspath(path)
    if isinstance(path, os.PathLike) and (found := _PATH_OF_URL.match(text)) and found[1] in _PROTOCOLS:
        raise InputError("found a URL in a pathlib.Path, which removes a slash", "expected a str", path=text)
    return bool(_URL.match(text))


def check_local(path: FilePath, argument: str) -> None:
    """Checks that a folder or file that changes during the work is on this machine.

    Raises:
        InputError: for a URL.
    """
    if is_url(path):
        raise InputError(
            "found a URL",
            f"expected a path on this machine for {argument}, which changes during the work",
            "name a local path, and copy it when the work is done",
            path=path,
        )


def absolute(path: FilePath) -> str:
    """Returns the absolute path of a local file, and a URL as it is."""
    return os.fspath(path) if is_url(path) else os.path.abspath(path)


def beside(file: FilePath, name: str) -> str:
    """Returns the path that a file names, relative to the file's folder.

    Example:

    >>> beside("s3://bucket/tasks.toml", "train.en"), beside("folder/tasks.toml", "s3://bucket/train.en")
    ('s3://bucket/train.en', 's3://bucket/train.en')
    """
    if is_url(name):
        return name
    if is_url(file) and not os.path.isabs(os.path.expanduser(name)):
        return joined(os.fspath(file).rpartition("/")[0], name)
    folder = "" if is_url(file) else os.path.dirname(file)
    return os.path.join(folder, os.path.expanduser(name))


def joined(folder: FilePath, name: str) -> str:
    """Returns the path of a file in a local or remote folder."""
    return f"{folder}".rstrip("/") + f"/{name}" if is_url(folder) else os.path.join(folder, name)
