"""Files in object stores and on other machines, named by URLs such as s3://bucket/table.gz.

This is the only module that knows fsspec, which needs the extra `remote`. The functions of `runtime.files` call it for
URLs, so that tasks open local and remote files in the same way. Addresses, credentials, time limits and retries are
those of each store's own library, which reads its usual environment variables and configuration files.
"""

import atexit
import contextlib
import functools
import io
import os
import pathlib
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from keras_encdec.errors import InputError, name_in_errors
from keras_encdec.runtime.unfinished import unfinished
from keras_encdec.runtime.urls import joined

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_READ_ONLY = ("http", "https")
# A written object of these stores does not exist before it is complete. Elsewhere a temporary file is renamed.
_COMMITTING = ("s3", "s3a", "gs", "gcs")
# Options of a store's library. Google's client compares the MD5 checksum after an upload; Amazon's sends a checksum
# with each request, which the store compares.
_OPTIONS: dict[str, dict[str, Any]] = {name: {"consistency": "md5"} for name in ("gs", "gcs")}
# Bytes that are fetched at once.
_READ_BLOCK = 1 << 23
_NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "RefreshError"}
# Files of a training that its model does not need.
_CHECKPOINTS = {"last.keras", "previous.keras"}


class RemoteInput(io.RawIOBase):
    """A remote file to read, which is fetched in blocks.

    Args:
        url: str.

    Attributes:
        count: int. Bytes read so far.
        size: int. Size of the file, 0 if the store does not tell it.

    Raises:
        InputError: if there is no such file, or it cannot be read; also while it is read.
    """

    def __init__(self, url: str) -> None:
        self.count, self._url = 0, url
        with _explained(url, "to read it"):
            store, path = _store(url)
            info = store.info(path)
            if info.get("type") == "directory":
                raise IsADirectoryError
            self.size = int(info.get("size") or 0)
            self._file = store.open(path, "rb", block_size=_READ_BLOCK)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        view = memoryview(buffer).cast("B")
        with _explained(self._url, "to read it"):
            data = self._file.read(len(view))
        view[: len(data)] = data
        self.count += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(Exception):
                self._file.close()
        super().close()


class RemoteOutput(io.RawIOBase):
    """A remote file to write, which appears under its name when `commit` is called.

    Args:
        url: str.

    Raises:
        InputError: if it cannot be written.
    """

    def __init__(self, url: str) -> None:
        self._url, self._size = url, 0
        protocol = _protocol(url)
        if protocol in _READ_ONLY:
            raise InputError("found a URL that can only be read", "expected a place to write to", path=url)
        with _explained(url, "to write it"):
            self._store, self._path = _store(url)
            if not self._path.rstrip("/") or url.endswith("/"):
                raise IsADirectoryError
            self._temporary: str | None = None
            if protocol in _COMMITTING:
                self._file = self._store.open(self._path, "wb")
            else:
                self._temporary = _hidden(self._path)
                self._store.makedirs(self._store._parent(self._path), exist_ok=True)
                self._file = self._store.open(self._temporary, "wb")

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        view = memoryview(data).cast("B")
        with _explained(self._url, "to write it"):
            self._file.write(bytes(view))
        self._size += len(view)
        return len(view)

    def commit(self) -> None:
        """Makes the file appear, and compares its size with what was written."""
        with _explained(self._url, "to write it"):
            self._file.close()
            if self._temporary is not None:
                self._store.mv(self._temporary, self._path)
            self._file = None
            self._store.invalidate_cache()
            found = int(self._store.info(self._path)["size"])
        if found != self._size:
            remedy = "run the same command again"
            raise InputError(f"found {found:,} bytes", f"expected the {self._size:,} written", remedy, self._url)

    def close(self) -> None:
        """Closes the file. If it was not committed, what was written is discarded."""
        if not self.closed and getattr(self, "_file", None) is not None:
            with contextlib.suppress(Exception):
                if self._temporary is None:
                    self._file.closed = True  # otherwise, its destructor would upload the rest
                    self._file.discard()
                else:
                    self._file.close()
                    self._store.rm_file(self._temporary)
        super().close()


def check_remote_readable(url: str) -> None:
    """Checks that a remote file can be read.

    Raises:
        InputError: if it is missing or a folder, or the store refuses.
    """
    RemoteInput(url).close()


def check_remote_writable(url: str) -> None:
    """Checks that a remote file can be written, by a small file beside it, which is removed again.

    Raises:
        InputError: if not.
    """
    beside = joined(url.rpartition("/")[0], _hidden(url).rpartition("/")[2])
    with contextlib.closing(RemoteOutput(beside)) as file:
        file.write(b"\n")
        file.commit()
    with _explained(url, "to write it"):
        store, path = _store(beside)
        store.rm_file(path)


def remote_exists(url: str) -> bool:
    """Returns whether a remote file or folder exists."""
    with _explained(url, "to look for it"):
        store, path = _store(url)
        return bool(store.exists(path))


def remote_contents(url: str, suffix: str) -> dict[str, bytes]:
    """Reads all files of a folder whose names have a suffix, several at a time; empty if there is no such folder."""
    with _explained(url, "to read its files"):
        store, path = _store(url)
        names = [name for name in store.ls(path, detail=False) if name.endswith(suffix)] if store.exists(path) else []
        contents = store.cat(names) if names else {}
    return {name.rpartition("/")[2]: data for name, data in contents.items()}


def remove_remote(url: str) -> None:
    """Removes a remote file or folder, if it exists."""
    with contextlib.suppress(FileNotFoundError), _explained(url, "to remove it"):
        store, path = _store(url)
        if store.exists(path):
            store.rm(path, recursive=True)


@functools.cache
def local_copy(url: str) -> pathlib.Path:
    """Copies a remote model directory to this machine, once for each process, which removes it when it ends.

    Checkpoints, prepared pairs and hidden files are left out.

    Raises:
        InputError: if there is no such folder, or it cannot be read.
    """
    folder = _copies.enter_context(_temporary_folder(url))
    with _explained(url, "to read it"):
        store, path = _store(url)
        found = [entry for entry in store.ls(path, detail=True) if entry["type"] == "file"]
        names = {entry["name"].rstrip("/").rpartition("/")[2]: entry for entry in found}
        if list(names) == [path.rpartition("/")[2]]:
            raise NotADirectoryError
        for name, entry in names.items():
            if not name.startswith(".") and name not in _CHECKPOINTS:
                _fetch(store, entry, folder / name)
    return folder


@contextlib.contextmanager
def fetched(url: str) -> Iterator[str]:
    """Yields the path of a temporary copy of a remote file, for libraries that read files by their paths.

    Raises:
        InputError: if there is no such file, or it cannot be read.
    """
    with _temporary_folder(url.rpartition("/")[0]) as folder:
        path = folder / url.rpartition("/")[2]
        with contextlib.closing(RemoteInput(url)) as read, open(path, "wb") as file:
            shutil.copyfileobj(io.BufferedReader(read, _READ_BLOCK), file)
        yield os.fspath(path)


@contextlib.contextmanager
def staged_folder(
    url: str, existing: bool = False, last: Sequence[str] = (), only: Callable[[str], bool] = lambda name: True
) -> Iterator[pathlib.Path]:
    """Yields a temporary local folder, whose files are uploaded when the `with` block ends without an exception.

    Args:
        url: str. The remote folder.
        existing: bool. Whether the folder has the files of the remote one at first. Defaults to `False`.
        last: list of str. Names of the files to upload last, in this order, because they refer to the others. Optional.
        only: callable of the name of a remote file, relative to the folder, which says whether to copy it. The folders
            of other files are there, but empty. Defaults to all files.

    Raises:
        InputError: if the store refuses. Files that cannot be uploaded are kept on this machine.
    """
    check_remote_writable(joined(url, "file"))
    with _temporary_folder(url) as folder:
        if existing:
            _fetch_folder(url, folder, only)
        yield folder
        files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))
        try:
            for file in sorted(files, key=lambda file: last.index(file.name) if file.name in last else -1):
                with open(file, "rb") as read, contextlib.closing(RemoteOutput(joined(url, _name(file, folder)))) as to:
                    shutil.copyfileobj(read, to, 1 << 20)
                    to.commit()
        except InputError as error:
            kept = folder.rename(f"{folder}-kept")  # the temporary folder is about to be removed
            raise InputError(f"{error}".rstrip("."), "", f"the files are kept in {os.fspath(kept)!r}") from error


@contextlib.contextmanager
def copied_folder(url: str, only: Callable[[str], bool]) -> Iterator[pathlib.Path]:
    """Yields a temporary local copy of a remote folder, see `staged_folder`.

    Raises:
        InputError: if the folder cannot be read.
    """
    with _temporary_folder(url) as folder:
        _fetch_folder(url, folder, only)
        yield folder


def _fetch_folder(url: str, folder: pathlib.Path, only: Callable[[str], bool]) -> None:
    with _explained(url, "to read it"):
        store, path = _store(url)
        found = store.find(path, detail=True) if store.exists(path) else {}
        for found_path, entry in found.items():
            name = found_path[len(path) :].lstrip("/")
            if only(name):
                _fetch(store, entry, folder / name)
            else:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)


def _name(file: pathlib.Path, folder: pathlib.Path) -> str:
    return file.relative_to(folder).as_posix()


# Folders of this process, removed when it ends.
_copies = contextlib.ExitStack()
atexit.register(_copies.close)


@contextlib.contextmanager
def _temporary_folder(url: str) -> Iterator[pathlib.Path]:
    """Makes a temporary folder that errors call by the URL."""
    folder = tempfile.mkdtemp(prefix="encdec-")
    with unfinished(folder):
        name_in_errors(folder, url.rstrip("/"))
        try:
            yield pathlib.Path(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _fetch(store: Any, entry: dict[str, Any], path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    store.get_file(entry["name"], os.fspath(path))
    if path.stat().st_size != entry["size"]:
        raise OSError(f"{entry['name']}: {path.stat().st_size:,} bytes came of {entry['size']:,}")


def _protocol(url: str) -> str:
    return url.partition("://")[0].lower()


def _hidden(path: str) -> str:
    """Returns a new hidden name beside a path."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name[:60]}.{secrets.token_hex(4)}.tmp"


def _store(url: str) -> tuple[Any, str]:
    """Returns fsspec's file system of a URL, and the path in it."""
    protocol = _protocol(url)
    try:
        import fsspec.core

        # What other processes write must be seen, so that listings are not kept.
        return fsspec.core.url_to_fs(url, use_listings_cache=False, **_OPTIONS.get(protocol, {}))
    except ImportError as error:
        needed = {"hdfs": "pyarrow and the client library of Hadoop"}.get(protocol, f"{error.name or error}")
        install = "install them" if protocol == "hdfs" else 'pip install "keras-encdec[remote]"'
        raise ImportError(f"{url}: {protocol}:// needs {needed}, which is not installed: {install}.") from error
    except ValueError as error:
        known = "expected s3, gs, hdfs, hf or https"
        raise InputError(f"found the unknown protocol {protocol} ({error})", known, "check the URL", url) from error


@contextlib.contextmanager
def _explained(url: str, doing: str) -> Iterator[None]:
    """Turns whatever a store's library raises into an InputError."""
    try:
        yield
    except (InputError, ImportError):
        raise
    except Exception as error:
        found, remedy = _explanation(url, error)
        raise InputError(f"{found} when trying {doing}", "", remedy, path=url) from error


def _explanation(url: str, error: Exception) -> tuple[str, str]:
    """Returns what was found, and what to do."""
    reason = (f"{error}".strip() or type(error).__name__).splitlines()[0]
    match error:
        case FileNotFoundError():
            if "bucket does not exist" in reason or not _bucket_exists(url):
                return "found no such bucket", "check the URL, or make the bucket"
            return "found no such file or folder", "check the URL"
        case IsADirectoryError():
            return "found a folder", "name a file"
        case NotADirectoryError():
            return "found a file", "name a folder"
        case PermissionError():
            return f"found no permission ({reason})", "check the credentials of this machine, and what they allow"
        case _ if type(error).__name__ in _NO_CREDENTIALS:
            return f"found no credentials ({reason})", "give this machine those of the store"
        case _ if type(error).__name__ == "FileExpired":
            return "found that the file was changed while it was read", "run the same command again"
    what = f"{type(error).__name__}: {reason}"
    return f"found that the store does not answer or refuses ({what})", "check the network, and run the command again"


def _bucket_exists(url: str) -> bool:
    """Whether the bucket of a file that does not exist exists, as far as the store tells."""
    if _protocol(url) not in _COMMITTING:
        return True
    with contextlib.suppress(Exception):
        store, path = _store(url)
        return bool(store.exists(path.partition("/")[0]))
    return True
