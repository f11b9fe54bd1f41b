"""Files and folders by their paths or URLs: recognizes URLs, checks what exists and may be used, reads whole files."""

import contextlib
import errno
import hashlib
import io
import os
import pathlib
import re
import reprlib
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.runtime.remote import RemoteInput, is_remote_file, remote_exists, remove_remote

#: The path that means standard input or output.
STANDARD_STREAM = "-"
_BLOCK = 1 << 17
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")
_PATH_OF_URL = re.compile(r"([a-z][a-z0-9+.-]+):/[^/]")
# Endings of files that other programs compress, or that hold several files.
_OTHER_COMPRESSION = re.compile(r"\.(bz2|xz|lzma|zst|lz4|zip|7z)$")
_PROTOCOLS = ("s3", "s3a", "gs", "gcs", "hdfs", "hf", "http", "https", "memory", "file", "abfs", "az")


def is_url(path: FilePath | None) -> bool:
    """Returns whether a path is a URL.

    Raises:
        ConfigurationError: a ValueError, see `check_path`.
        InputError: for a URL in a `pathlib.Path`, which has dropped one of its slashes.

    Example:

    >>> is_url("s3://bucket/table.gz"), is_url("tables/table.gz"), is_url("-")
    (True, False, False)
    """
    if path is None:
        return False
    check_path(path)
    text = os.fspath(path)
    if isinstance(path, os.PathLike) and (found := _PATH_OF_URL.match(text)) and found[1] in _PROTOCOLS:
        raise InputError("found a URL in a pathlib.Path, which removes a slash", "expected a str", path=text)
    return bool(_URL.match(text))


def check_path(path: object, what: str | None = None) -> None:
    """Checks a path that a program has given.

    Args:
        path: the path.
        what: str. What the path should lead to, such as "a model directory". Defaults to `None`: any file or folder,
            for which the path may be empty.

    Raises:
        ConfigurationError: a ValueError, for another object, such as `None`, a list or bytes; for an empty path, which
            would lead to the working directory; and for a path with a NUL character, which no file can have.
    """
    if not isinstance(path, str | os.PathLike) or what and path == "":
        raise ConfigurationError(
            "found %s in place of the path of %s, expected a str or a pathlib.Path that is not empty",
            reprlib.repr(path),
            what or "a file or folder",
        )
    if "\0" in os.fspath(path):
        raise ConfigurationError("found a NUL character in the path %s, expected none", reprlib.repr(os.fspath(path)))


def check_lists(optional: Collection[str] = (), /, **lists: object) -> None:
    """Checks that arguments are lists of paths, not single paths, whose letters would be read as paths.

    Args:
        optional: names of the arguments that may be empty. Defaults to none.
        **lists: the arguments, by their names.

    Raises:
        ConfigurationError: a ValueError, for a path or another object in place of a list, and for an empty list.
    """
    for name, paths in lists.items():
        if isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable):
            raise ConfigurationError("found %s=%s, expected a list of paths", name, reprlib.repr(paths))
        if not paths and name not in optional:
            raise ConfigurationError("found an empty list of %s, expected one path or more", name)


def check_local(path: FilePath, argument: str) -> None:
    """Checks that a folder or file that changes during the work is on this machine.

    Raises:
        InputError: for a URL.
    """
    if is_url(path):
        expected = f"expected a path on this machine for {argument}, which changes during the work"
        raise InputError("found a URL", expected, "name a local path, and copy it when the work is done", path=path)


def checked_utf8(path: str) -> str:
    """Checks a path that will be written into a file in UTF-8, and returns it.

    Raises:
        InputError: if the absolute path has bytes that are not UTF-8.
    """
    try:
        absolute(path).encode()
    except UnicodeEncodeError:
        raise InputError("found bytes that are not UTF-8 in this path", "", "rename it", absolute(path)) from None
    return path


def absolute(path: FilePath) -> str:
    """Returns the absolute path of a local file, and a URL as it is."""
    return os.fspath(path) if is_url(path) else os.path.abspath(path)


def resolved(file: FilePath, name: str) -> str:
    """Resolves a path that a file contains: a relative path starts from the file's folder.

    Example:

    >>> resolved("s3://bucket/tasks.toml", "train.en"), resolved("folder/tasks.toml", "s3://bucket/train.en")
    ('s3://bucket/train.en', 's3://bucket/train.en')
    """
    name = os.path.expanduser(name)
    if is_url(name) or os.path.isabs(name):
        return name
    folder, slash, _ = os.fspath(file).rpartition("/")
    return f"{folder}{slash}{name}"


def joined(folder: FilePath, name: str) -> str:
    """Returns the path of a file in a local or remote folder."""
    if not is_url(folder):
        return os.path.join(folder, name)
    protocol, _, path = os.fspath(folder).partition("://")
    return f"{protocol}://{path.rstrip('/')}/{name}"


def read_contents(path: FilePath) -> bytes:
    """Reads a small file, local or remote, as it is.

    Raises:
        InputError: if it cannot be read.
    """
    with _opened(path) as file:
        return file.read()


@contextlib.contextmanager
def _opened(path: FilePath) -> Iterator[io.BufferedIOBase]:
    """Opens a file, local or remote, to read it as it is."""
    if is_url(path):
        with io.BufferedReader(RemoteInput(os.fspath(path)), _BLOCK) as remote:
            yield remote
    else:
        with explained(path, "to read a file"), open(path, "rb") as file:
            yield file


def exists(path: FilePath) -> bool:
    """Returns whether there is a file or folder at a path or URL."""
    return remote_exists(os.fspath(path)) if is_url(path) else os.path.exists(path)


def remove(path: FilePath) -> None:
    """Removes a file or folder, local or remote, if it exists.

    Raises:
        InputError: if it cannot be removed.
    """
    if is_url(path):
        remove_remote(os.fspath(path))
        return
    with explained(path, "to remove"):
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)


def flush_to_disk(path: FilePath) -> None:
    """Waits until a local file, or the list of a folder's files, is on disk and survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot flush folders
            raise
    finally:
        os.close(descriptor)


def is_file(path: FilePath) -> bool:
    """Returns whether there is a file, not a folder, at a path or URL."""
    return is_remote_file(os.fspath(path)) if is_url(path) else os.path.isfile(path)


def check_readable(path: FilePath) -> None:
    """Checks that a file can be read, without opening it: a pipe can be opened only once.

    Args:
        path: the file; "-" means standard input.

    Raises:
        InputError: if it is missing, is a directory, or may not be read.
    """
    if path == STANDARD_STREAM:
        return
    if is_url(path):
        RemoteInput(os.fspath(path)).close()
        return
    with explained(path, "to read a file"):
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, "Permission denied")


def is_stream(path: FilePath) -> bool:
    """Returns whether a path is "-", or leads to a pipe or a device."""
    if path == STANDARD_STREAM:
        return True
    return not is_url(path) and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def check_can_be_read_again(path: FilePath) -> None:
    """Checks that an input is not a pipe, for work that reads it more than once.

    It ignores other errors, such as those of a directory, which `check_readable` finds.

    Raises:
        InputError: for a pipe or the standard input.
    """
    if is_stream(path):
        remedy = "write it to a file first"
        raise InputError("found a pipe", "expected a file, because it is read more than once", remedy, path)


def check_compression(path: FilePath) -> None:
    """Checks that a file to write has no ending of a compressed file, such as .zst, except .gz.

    Raises:
        InputError: for such an ending, because only gzip is supported.
    """
    if ending := _OTHER_COMPRESSION.search(os.fspath(path)):
        found = f"found a name that ends in {ending[0]}"
        expected = "expected the name of a plain file, or a name that ends in .gz"
        raise InputError(found, expected, "write a plain file, and compress it when the work is done", path)


def check_writable(path: FilePath) -> None:
    """Checks that a file can be made, without making it. Of a URL, only the name is checked.

    Args:
        path: the file; "-" means standard output.

    Raises:
        InputError: if it is a directory, if its directory is missing or may not be written to, or if its name has an
            ending such as .zst, see `check_compression`.
    """
    check_compression(path)
    if path == STANDARD_STREAM or is_url(path):
        return
    final = os.path.realpath(path)
    with explained(path, "to write a file"):
        if os.path.isdir(final) or not os.path.basename(path):
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        folder = os.path.dirname(final)
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        if not os.access(final if os.path.exists(final) and not os.path.isfile(final) else folder, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")


def check_folder(path: FilePath) -> None:
    """Checks that a folder on this machine exists or can be made, without making it.

    Args:
        path: the folder, or its URL, which is not checked.

    Raises:
        InputError: if it is "-", if it or a folder above it is a file, or if the nearest existing folder may not be
            written to.
    """
    if is_url(path):
        return
    if path == STANDARD_STREAM:
        raise InputError("found standard output", "expected a directory", "name it ./- if this is its name", path)
    with explained(path, "to make a directory"):
        folder = os.path.realpath(path)
        if os.path.isfile(folder):
            raise FileExistsError(errno.EEXIST, "File exists")
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if not os.path.isdir(folder):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        if not os.access(folder, os.W_OK):
            raise PermissionError(errno.EACCES, "Permission denied")


def as_result(path: FilePath) -> FilePath:
    """Returns a path as the result of a task names it: a local one as pathlib.Path, a URL as it is."""
    return path if is_url(path) else pathlib.Path(path)


def check_absent(path: FilePath) -> None:
    """Checks that a folder that a task makes, or its URL, does not exist yet.

    Raises:
        InputError: if a file or folder of this name exists.
    """
    if exists(path):
        found = "found a file or directory that exists already"
        raise InputError(found, "expected a new path", "give another --output", path)


def check_distinct_files(*paths: FilePath | None) -> None:
    """Checks that the inputs and outputs of a job are different files.

    Args:
        *paths: the paths of all inputs and outputs. `None` and "-" are ignored.

    Raises:
        ConfigurationError: a ValueError, if two paths lead to the same file.
    """
    for path in paths:
        if path is not None:
            check_path(path)
    named = [os.fspath(path) for path in paths if path and path != STANDARD_STREAM]
    # URLs with file:// or local:// are paths on this machine.
    local = [re.sub(r"^(file|local)://", "", path) for path in named]
    given = [path if is_url(path) else os.path.realpath(path) for path in local]
    for i, path in enumerate(given):
        if path in given[:i]:
            expected = "expected a different file for each input and output"
            raise ConfigurationError("found one file for two purposes (%s), %s", path, expected)


def file_checksum(path: FilePath) -> str:
    """Returns the SHA-256 checksum of a file, in hexadecimal digits.

    Raises:
        InputError: if the file cannot be read, or is a pipe, which could not be read again.
    """
    check_can_be_read_again(path)
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
