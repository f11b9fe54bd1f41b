"""Files in object stores and on other machines, named by URLs such as s3://bucket/table.gz.

This is the only module that uses fsspec, which needs the extra `remote`. `runtime.files`, `runtime.input_lines` and
`runtime.open_output` call it for URLs, so that tasks open local and remote files in the same way. Each store's own
library sets addresses, credentials, time limits and retries, and reads its usual environment variables and
configuration files.
"""

import contextlib
import errno
import io
import os
import pathlib
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from keras_encdec.errors import EXPLANATIONS, InputError

if TYPE_CHECKING:
    import fsspec
    from _typeshed import ReadableBuffer, WriteableBuffer

_READ_ONLY = ("http", "https")
# In these stores, an object does not exist until it is complete. Elsewhere, a temporary file is renamed.
_COMMITTING = ("s3", "s3a", "gs", "gcs")
# Options of a store's library. Google's client compares the MD5 checksum after an upload; Amazon's sends a checksum
# with each request, which the store compares.
_OPTIONS: dict[str, dict[str, object]] = {name: {"consistency": "md5"} for name in ("gs", "gcs")}
# Protocols whose libraries the extra `remote` installs.
_IN_EXTRA = ("s3", "s3a", "gs", "gcs", "hf", "http", "https")
# Number of bytes to fetch at once.
_READ_BLOCK = 1 << 23
_NO_CREDENTIALS = {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "RefreshError"}


class RemoteInput(io.RawIOBase):
    """A remote file to read, which is fetched in blocks.

    Attributes:
        count: int. Bytes read so far.
        size: int. Size of the file, 0 if the store does not say.

    Raises:
        InputError: if there is no such file, or it cannot be read; also while it is read.
    """

    def __init__(self, url: str) -> None:
        self.count, self._url = 0, url
        with _explained(url, "to read it"):
            store, path = _store(url)
            self.size = _file_size(store, path)
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

    Raises:
        InputError: if it cannot be written.
    """

    def __init__(self, url: str) -> None:
        self._url, self._size = url, 0
        _check_protocol_writes(url)
        with _explained(url, "to write it"):
            self._store, self._path = _store(url)
            if not self._path.rstrip("/") or url.endswith("/"):
                raise IsADirectoryError
            self._temporary: str | None = None
            if _protocol(url) in _COMMITTING:
                self._file = self._store.open(self._path, "wb")
            else:
                if self._store.isdir(self._path):
                    raise IsADirectoryError
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
        """Makes the file appear, and checks that its size is that of the written data."""
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


def check_remote_writable(url: str) -> None:
    """Checks that a remote file can be written: writes a small file next to it, and removes that file.

    Raises:
        InputError: if it cannot be written.
    """
    _check_protocol_writes(url)
    beside = _hidden(url)
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


def is_remote_file(url: str) -> bool:
    """Returns whether a remote file exists; false for a folder."""
    with _explained(url, "to look for it"):
        store, path = _store(url)
        return bool(store.isfile(path))


def remote_sizes(url: str, deep: bool = True) -> dict[str, int]:
    """Lists the files of a remote folder, and those in its folders if `deep`, by name with their sizes in bytes.

    Names are relative to the folder. Without such a folder, the result is empty.

    Raises:
        InputError: if the URL is that of a file, or the store refuses.
    """
    with _explained(url, "to read it"):
        store, path = _store(url)
        path = path.rstrip("/")
        if not store.exists(path):
            return {}
        found = store.find(path, detail=True).values() if deep else store.ls(path, detail=True)
        files = {entry["name"].rstrip("/"): int(entry["size"] or 0) for entry in found if entry["type"] == "file"}
        if path in files:
            raise NotADirectoryError
        return {name[len(path) :].lstrip("/"): size for name, size in files.items()}


def fetch(url: str, path: pathlib.Path, size: int | None = None) -> None:
    """Copies a remote file, of the given size if it is known, to this machine, and creates the folder of the copy.

    Raises:
        InputError: if there is no such file, it cannot be read, or it has another size.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _explained(url, "to read it"):
        store, remote_path = _store(url)
        if size is None:
            size = _file_size(store, remote_path)
        store.get_file(remote_path, os.fspath(path))
        if size and path.stat().st_size != size:
            raise OSError(f"{path.stat().st_size:,} bytes arrived of {size:,}")


def _file_size(store: "fsspec.AbstractFileSystem", path: str) -> int:
    """Returns the size of a file, 0 if the store does not say; raises an OSError for a folder or a missing file."""
    info = store.info(path)
    if info.get("type") == "directory":
        raise IsADirectoryError
    return int(info.get("size") or 0)


def _check_protocol_writes(url: str) -> None:
    if _protocol(url) in _READ_ONLY:
        raise InputError("found a URL that can only be read", "expected a place to write to", path=url)


def _protocol(url: str) -> str:
    return url.partition("://")[0].lower()


def _hidden(path: str) -> str:
    """Returns a new hidden name in the folder of a path."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name[:60]}.{secrets.token_hex(4)}.tmp"


def _store(url: str) -> "tuple[fsspec.AbstractFileSystem, str]":
    """Returns fsspec's file system of a URL, and the path in it."""
    protocol = _protocol(url)
    try:
        import fsspec.core

        # Listings are not cached, so that files written by other processes are seen.
        return fsspec.core.url_to_fs(url, use_listings_cache=False, **_OPTIONS.get(protocol, {}))
    except ImportError as error:
        # fsspec may wrap the import error in one of its own, which has only a sentence, without the library's name.
        needed = error.name or getattr(error.__cause__, "name", None) or f"{error}"
        extra = needed == "fsspec" or protocol in _IN_EXTRA
        install = 'pip install "keras-encdec[remote]"' if extra else f"pip install {needed}"
        if protocol == "hdfs":
            needed, install = "pyarrow and the client library of Hadoop", "install them"
        raise ImportError(f"{url}: {protocol}:// needs {needed}, which is not installed: {install}.") from error
    except ValueError as error:
        known = "expected s3, gs, hdfs, hf, https or file"
        raise InputError(f"found the unknown protocol {protocol}", known, "check the URL", url) from error


@contextlib.contextmanager
def _explained(url: str, doing: str) -> Iterator[None]:
    """Turns any exception of a store's library into an InputError."""
    try:
        yield
    except (InputError, ImportError):
        raise
    except Exception as error:
        found, remedy = _explanation(url, error)
        raise InputError(f"{found} when trying {doing}", "", remedy, path=url) from error


def _explanation(url: str, error: Exception) -> tuple[str, str]:
    """Returns what was found, and what to do."""
    cause = error.__cause__
    if _protocol(url) in _READ_ONLY and isinstance(cause, Exception) and getattr(cause, "status", None) != 404:
        error = cause  # fsspec reports any failure of a web server as a missing file
    reason = (f"{error}".strip() or type(error).__name__).splitlines()[0]
    match error:
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EROFS as number):
            return EXPLANATIONS[number]
        case FileNotFoundError():
            if "bucket does not exist" in reason or not _bucket_exists(url):
                return "found no such bucket", "check the URL, or make the bucket"
            return "found no such file or folder", "check the URL"
        case IsADirectoryError():
            return "found a folder", "name a file"
        case NotADirectoryError():
            return "found a file", "name a folder"
        case PermissionError():
            return (
                f"found that permission is denied ({reason})",
                "check the credentials of this machine, and what they allow",
            )
        case _ if type(error).__name__ in _NO_CREDENTIALS:
            return f"found no credentials ({reason})", "give this machine the credentials of the store"
        case _ if type(error).__name__ == "FileExpired":
            return "found that the file was changed while it was read", "run the same command again"
    what = f"{type(error).__name__}: {reason}"
    return (
        f"found that the store does not answer or refuses the request ({what})",
        "check the network, and run the command again",
    )


def _bucket_exists(url: str) -> bool:
    """Returns whether the bucket of a missing file exists; true if the store does not say."""
    if _protocol(url) not in _COMMITTING:
        return True
    with contextlib.suppress(Exception):
        store, path = _store(url)
        return bool(store.exists(path.partition("/")[0]))
    return True
