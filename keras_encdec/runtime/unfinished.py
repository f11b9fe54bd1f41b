"""Files and folders that appear only when complete, and the lock on a directory."""

import contextlib
import errno
import fcntl
import functools
import os
import pathlib
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence

import filelock

from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.runtime.files import check_local

_paths: set[str] = set()
_new_folders: list[pathlib.Path] = []


@contextlib.contextmanager
def unfinished(path: FilePath) -> Iterator[None]:
    """Registers a file or folder that `remove_unfinished` removes if it is called during the `with` block."""
    path = os.path.abspath(path)
    _paths.add(path)
    try:
        yield
    finally:
        _paths.discard(path)


def remove_unfinished() -> None:
    """Removes all unfinished files and folders, for a process that must end without raising an exception."""
    for path in sorted(_paths):
        _remove(path)
    _remove_empty(_new_folders)


def _remove(path: str) -> None:
    """Removes a file or folder as far as possible."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def new_folder(path: FilePath) -> Iterator[pathlib.Path]:
    """Creates a folder and its missing parents for the `with` block; it may already exist.

    If the block raises an exception, or `remove_unfinished` is called, the new folders that are empty are removed.

    Raises:
        InputError: if the folder cannot be created.
    """
    check_local(path, "this folder")
    folder = pathlib.Path(path)
    made = [path for path in (folder, *folder.parents) if not path.exists()][::-1]
    _new_folders.extend(made)
    try:
        with explained(folder, "to make a directory"):
            folder.mkdir(parents=True, exist_ok=True)
        yield folder
    except BaseException:
        _remove_empty(made)
        raise
    finally:
        for parent in made:
            _new_folders.remove(parent)


def _remove_empty(folders: Sequence[pathlib.Path]) -> None:
    """Removes the empty folders among these, from the last, which is the innermost, to the first."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def temporary_beside(path: str) -> Iterator[tuple[str, int]]:
    """Creates a hidden temporary file in the folder of `path`, an absolute path, with the permissions of the umask.

    Temporary files that killed processes left for the same `path` are removed first. A file of a running process is
    locked, and therefore stays. At the end of the block, the temporary file is removed if it still exists.

    Yields:
        A tuple of the temporary path and a file descriptor to write to, which the block closes.
    """
    with _temporary(*_beside(path), _create) as (temporary, descriptor):
        yield temporary, os.dup(descriptor)


@contextlib.contextmanager
def temporary_folder_beside(path: str) -> Iterator[str]:
    """Creates a hidden temporary folder in the folder of `path`, "folder/name", for unfinished files of a job.

    Temporary folders that killed processes left for the same `path` are removed first. A folder of a running process is
    locked, and therefore stays. At the end of the block, the temporary folder is removed with its contents.
    """
    with _temporary(*_beside(path), _create_folder) as (temporary, _):
        yield temporary


@contextlib.contextmanager
def temporary_folder() -> Iterator[str]:
    """Creates, in the system's folder for temporary files (TMPDIR), a folder that only this user can read.

    Folders that killed processes left there are removed first. A folder of a running process is locked, and therefore
    stays. At the end of the block, the folder is removed with its contents.
    """
    create = functools.partial(_create_folder, mode=0o700)
    with _temporary(tempfile.gettempdir(), "encdec-", create) as (folder, _):
        yield folder


def writing_temporary_files() -> contextlib.AbstractContextManager[None]:
    """Turns an `OSError` in a `with` block that writes to a `temporary_folder` into an `InputError`."""
    return explained(tempfile.gettempdir(), "to write temporary files (set TMPDIR to use another folder)")


def _beside(path: str) -> tuple[str, str]:
    """Returns the folder of a path, and how hidden names beside it begin."""
    folder, name = os.path.split(path)
    return folder, f".{name[:60]}."  # a file system allows names of at most 255 bytes


@contextlib.contextmanager
def _temporary(folder: str, prefix: str, create: Callable[[str], int]) -> Iterator[tuple[str, int]]:
    """Yields the path of what `create` makes in a folder under a new name, and the descriptor that locks it."""
    _remove_abandoned(folder, prefix)
    temporary, descriptor = os.path.join(folder, f"{prefix}{secrets.token_hex(4)}.tmp"), None
    with unfinished(temporary):
        try:  # starts before the file is created, because a signal may come while it is being created
            descriptor = create(temporary)
            yield temporary, descriptor
        finally:
            _remove(temporary)
            if descriptor is not None:
                os.close(descriptor)  # this also releases the lock


def _create(path: str) -> int:
    while True:
        # os.open uses the permissions of the umask; tempfile does not.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # on a file system without locks, nothing is ever removed as abandoned
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits for a process that is about to remove the file as abandoned
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # another process removed the file as abandoned before it was locked


def _create_folder(path: str, mode: int = 0o777) -> int:
    while True:
        os.mkdir(path, mode)
        with contextlib.suppress(FileNotFoundError):  # removed as abandoned, see `_create`
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.isdir(path):
                return descriptor
            os.close(descriptor)


def _remove_abandoned(folder: str, prefix: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(prefix) and re.fullmatch(r"[0-9a-f]{8}\.tmp", name[len(prefix) :]):
                with contextlib.suppress(OSError):
                    _remove_unless_locked(os.path.join(folder, name))


def _remove_unless_locked(path: str) -> None:
    is_folder = os.path.isdir(path)
    # O_NONBLOCK: a named pipe without a reader is an error.
    descriptor = os.open(path, (os.O_RDONLY if is_folder else os.O_WRONLY) | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_folder:
            shutil.rmtree(path)
        else:
            os.unlink(path)
    finally:
        os.close(descriptor)


# Seconds in which to retry: a job that is just ending may have removed the lock file, but not yet released the lock.
_PATIENCE = 0.1
# Numbers of the errors that flock raises on file systems without locks, such as some network file systems.
_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def directory_lock(folder: FilePath, job: str, argument: str) -> Iterator[None]:
    """Keeps other jobs of the same kind out of a directory while the `with` block runs.

    Jobs of the same process are kept out, too; jobs that only read the directory do not use the lock. The kernel
    releases the lock when the process ends, even if it is killed; the lock file that it leaves then stops no other job.
    On a file system without locks (flock), no job is kept out.

    Args:
        folder: path of the directory. It is created if it does not exist, and removed at the end if it is empty.
        job: str. The kind of job, such as "training". The lock file is named after it.
        argument: str. The argument by which a user names the directory, such as "--model_dir".

    Raises:
        InputError: if another such job holds the lock, or the directory cannot be created or written to.
    """
    check_local(folder, argument)
    with new_folder(folder) as folder:
        path = folder / f".{job}.lock"
        lock = filelock.FileLock(path, _PATIENCE, poll_interval=_PATIENCE / 10, fallback_to_soft=False)
        _acquire(lock, path, job, argument)
        try:
            with unfinished(path):
                with explained(path, "to write"):
                    path.write_text(f"process {os.getpid()} on {socket.gethostname()}")
                yield
        finally:
            with contextlib.suppress(OSError):  # for example, on a disk that has become read-only after an error
                path.unlink()  # before the release; after it, the file may belong to another job
            lock.release()
            _remove_empty([folder])


def _acquire(lock: filelock.BaseFileLock, path: pathlib.Path, job: str, argument: str) -> None:
    with explained(path, "to lock the directory"):
        try:
            lock.acquire()
        except filelock.Timeout:
            raise InputError(
                f"found another {job} at work in this directory ({_holder(path)})",
                "expected one at a time",
                f"wait until it ends, or give another {argument}",
                path.parent,
            ) from None
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise


def _holder(path: pathlib.Path) -> str:
    """Returns the description that the process which holds the lock wrote into the lock file."""
    try:
        return path.read_text(errors="replace") or "another process"
    except OSError:
        return "another process"
