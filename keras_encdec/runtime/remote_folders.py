"""Works on copies of remote files and folders on this machine."""

import atexit
import concurrent.futures
import contextlib
import functools
import os
import pathlib
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from keras_encdec.errors import EncdecWarning, FilePath, InputError, explained, name_in_errors
from keras_encdec.runtime.files import is_url, joined
from keras_encdec.runtime.remote import RemoteOutput, check_remote_writable, fetch, remote_sizes, remove_remote
from keras_encdec.runtime.unfinished import temporary_folder

_BLOCK = 1 << 20
# Files of a training run that are not needed to use its model.
_CHECKPOINTS = {"last.keras", "previous.keras"}
# Time of the last change, size and inode number of a file: if they differ, the file has changed.
_Stamp = tuple[int, int, int]


class StagedFolder:
    """A temporary folder on this machine whose files are uploaded when the `with` block ends without an exception.

    The block gets the path of the folder. Within the block, `upload` and `upload_in_background` upload the files that
    are new or have changed since the last upload. A file that was uploaded, or copied at the start, and no longer
    exists is also removed from the remote folder. Hidden files and folders are not uploaded.

    Args:
        url: str. The remote folder.
        existing: bool. Whether to copy the files of the remote folder to it at the start. Defaults to `False`.
        last: list of str. Names of the files to upload last, in this order, because they refer to the others. Optional.
        first: str. Name of a folder in it whose files are uploaded first. Optional.
        only: function that takes the name of a remote file, relative to the folder, and returns whether to copy it. The
            folders of files that are not copied are created empty. Defaults to all files.
        after_errors: bool. Whether to upload the files after an exception, too, so that the work can continue later.
            Defaults to `False`.

    Raises:
        InputError: if the store refuses. Files that cannot be uploaded are kept on this machine.
    """

    def __init__(
        self,
        url: str,
        existing: bool = False,
        last: Sequence[str] = (),
        first: str | None = None,
        only: Callable[[str], bool] = lambda name: True,
        after_errors: bool = False,
    ) -> None:
        self._url, self._existing, self._last, self._first = url, existing, last, first
        self._only, self._after_errors = only, after_errors
        self._uploaded: dict[str, _Stamp] = {}
        self._stack = contextlib.ExitStack()
        self._executor = concurrent.futures.ThreadPoolExecutor(1)
        self._running: concurrent.futures.Future[None] | None = None

    def __enter__(self) -> pathlib.Path:
        check_remote_writable(joined(self._url, "file"))
        self._path = self._stack.enter_context(_temporary_folder(self._url))
        if self._existing:
            try:
                _fetch_folder(self._url, self._path, self._only)
            except BaseException:
                self._stack.close()
                raise
            self._uploaded = {name: _stamp(path) for name, path in self._files().items()}
        return self._path

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        with self._stack, self._executor:
            if kind is None or self._after_errors:
                self.upload()

    def upload(self) -> None:
        """Uploads the files that are new or have changed.

        Raises:
            InputError: if the store refuses; the files are then kept on this machine.
        """
        if self._running:
            concurrent.futures.wait([self._running])
        try:
            self._send(self._opened())
        except InputError as error:
            kept = self._path.rename(f"{self._path.parent}-kept")  # the temporary folder is about to be removed
            self._uploaded.clear()  # or the upload at the end of the block would remove these files from the store
            # Not the error's own remedy, to run the command again: that would not use the files that are kept.
            remedy = f"copy the files to {self._url}: they are kept in {os.fspath(kept)!r}"
            raise InputError(error.found, error.expected, remedy, error.path) from error

    def upload_in_background(self) -> None:
        """Uploads the files that are new or have changed while the work continues, unless the last upload still runs.

        The work must replace files, not overwrite them. A failed upload causes a warning; the next upload tries again.
        """
        if self._running is None or self._running.done():
            self._running = self._executor.submit(self._send_or_warn, self._opened())

    def _files(self) -> dict[str, pathlib.Path]:
        """Returns the files to upload by their names, in the order of uploading."""
        files = {
            path.relative_to(self._path).as_posix(): path for path in sorted(self._path.rglob("*")) if path.is_file()
        }
        names = [name for name in files if not any(part.startswith(".") for part in name.split("/"))]
        names.sort(key=lambda name: self._last.index(base) if (base := name.rpartition("/")[2]) in self._last else -1)
        names.sort(key=lambda name: name.partition("/")[0] != self._first)
        return {name: files[name] for name in names}

    def _opened(self) -> dict[str, tuple[BinaryIO, _Stamp] | None]:
        """Opens the files to upload, which preserves their present contents; returns `None` for files to remove."""
        files = self._files()
        with explained(self._path, "to read its files"):
            stamps = {name: _stamp(path) for name, path in files.items()}
            changed = [name for name in files if stamps[name] != self._uploaded.get(name)]
            opened: dict[str, tuple[BinaryIO, _Stamp] | None] = {
                name: (open(files[name], "rb"), stamps[name])  # noqa: SIM115  # closed when it is uploaded
                for name in changed
            }
        return opened | dict.fromkeys(self._uploaded.keys() - files.keys())

    def _send(self, opened: Mapping[str, tuple[BinaryIO, _Stamp] | None]) -> None:
        with contextlib.ExitStack() as stack:
            for each in filter(None, opened.values()):
                stack.enter_context(each[0])
            for name, found in opened.items():
                url = joined(self._url, name)
                if found is None:
                    remove_remote(url)
                    del self._uploaded[name]
                    continue
                with contextlib.closing(RemoteOutput(url)) as output:
                    shutil.copyfileobj(found[0], output, _BLOCK)
                    output.commit()
                self._uploaded[name] = found[1]

    def _send_or_warn(self, opened: Mapping[str, tuple[BinaryIO, _Stamp] | None]) -> None:
        try:
            self._send(opened)
        except InputError as error:
            later = InputError(error.found, error.expected, "the next upload tries again", error.path)
            warnings.warn(EncdecWarning(f"{later}"), stacklevel=2)


def _stamp(path: pathlib.Path) -> _Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


@contextlib.contextmanager
def copied_folder(url: str, only: Callable[[str], bool] = lambda name: True) -> Iterator[pathlib.Path]:
    """Yields a temporary local copy of a remote folder, see `StagedFolder`.

    Raises:
        InputError: if the folder cannot be read.
    """
    with _temporary_folder(url) as folder:
        _fetch_folder(url, folder, only)
        yield folder


@functools.cache
def local_copy(url: str) -> pathlib.Path:
    """Copies a remote model directory to this machine, once per process. The copy is removed when the process ends.

    Checkpoints, prepared pairs and hidden files are left out.

    Raises:
        InputError: if there is no such folder, or it cannot be read.
    """
    folder = _copies.enter_context(_temporary_folder(url))
    sizes = remote_sizes(url, deep=False)
    if not sizes:
        raise InputError("found no such file or folder when trying to read it", "", "check the URL", url)
    for name, size in sizes.items():
        if not name.startswith(".") and name not in _CHECKPOINTS:
            fetch(joined(url, name), folder / name, size)
    return folder


class LocalFiles(contextlib.AbstractContextManager["LocalFiles"]):
    """Temporary copies on this machine of remote files, for libraries and programs that read files by their paths.

    They are removed at the end of the `with` block.

    Args:
        staged: dict from the URL of a folder to its copy on this machine, in which its files are found. Keys that are
            not URLs have no effect. Defaults to none.

    Example:

        with LocalFiles() as local:
            program(local.path("s3://bucket/table.gz"), local.path("local.gz"))
    """

    def __init__(self, staged: Mapping[FilePath, pathlib.Path] | None = None) -> None:
        self._stack, self._copies = contextlib.ExitStack(), dict[str, str]()
        self._staged = {joined(url, ""): folder for url, folder in (staged or {}).items() if is_url(url)}

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def path(self, path: FilePath) -> str:
        """Returns the path of a local file unchanged, and for a remote file the path of its copy.

        Raises:
            InputError: if there is no such file, or it cannot be read.
        """
        url = os.fspath(self.in_staged(path))
        if not is_url(url):
            return url
        if url not in self._copies:
            folder, _, name = url.rpartition("/")
            copy = self._stack.enter_context(_temporary_folder(folder)) / name
            fetch(url, copy)
            self._copies[url] = os.fspath(copy)
        return self._copies[url]

    def in_staged(self, path: FilePath) -> FilePath:
        """Returns the path in the copy if `path` is a URL in a folder of `staged`; otherwise returns `path`."""
        if is_url(path):
            for url, folder in self._staged.items():
                if os.fspath(path).startswith(url):
                    return folder / os.fspath(path).removeprefix(url)
        return path


def _fetch_folder(url: str, folder: pathlib.Path, only: Callable[[str], bool]) -> None:
    for name, size in remote_sizes(url).items():
        if only(name):
            fetch(joined(url, name), folder / name, size)
        else:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)


# Folders of this process, removed when it ends.
_copies = contextlib.ExitStack()
atexit.register(_copies.close)


@contextlib.contextmanager
def _temporary_folder(url: str) -> Iterator[pathlib.Path]:
    """Makes a temporary folder. Errors show the URL in place of its path."""
    with temporary_folder() as outer:  # locked; some tasks lock the folder that they work on
        folder = pathlib.Path(outer, "copy")
        folder.mkdir()
        name_in_errors(os.fspath(folder), url.rstrip("/"))
        yield folder
