"""Files and folders that appear only when complete, and the lock on a directory."""

import contextlib
import errno
import fcntl
import os
import pathlib
import re
import secrets
import shutil
import socket
from collections.abc import Iterator

import filelock

from keras_encdec.errors import InputError
from keras_encdec.runtime.os_errors import FilePath, explained

_paths: set[str] = set()
_new_folders: list[pathlib.Path] = []


@contextlib.contextmanager
def unfinished(path: FilePath) -> Iterator[None]:
    """Has `remove_unfinished` remove a file or folder, for the time of the `with` block."""
    path = os.path.abspath(path)
    _paths.add(path)
    try:
        yield
    finally:
        _paths.discard(path)


def remove_unfinished() -> None:
    """Removes what is in the making, for a process that is to end without the exceptions that would do it."""
    for path in sorted(_paths):
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(path)
    _remove_empty(_new_folders)


@contextlib.contextmanager
def new_folder(path: FilePath) -> Iterator[pathlib.Path]:
    """Makes a folder, with the folders above it, for what the `with` block writes.

    Where the block ends by an exception, or the process by `remove_unfinished`, the folders that were made are removed
    again if they are empty.

    Args:
        path: of the folder. It may exist already.

    Yields:
        its path.

    Raises:
        InputError: when it cannot be made.
    """
    folder = pathlib.Path(path)
    made = [one for one in (folder, *folder.parents) if not one.exists()][::-1]
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


def _remove_empty(folders):
    """Removes those of the folders that are empty, the last and innermost first."""
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def temporary_beside(path: str) -> Iterator[tuple[str, int]]:
    """Opens a new hidden file in the folder of `path`, its permissions as the umask has them.

    What a process left for the same path that was killed is removed first; a file of one that lives is locked.

    Args:
        path: str, of the file that it is to become. Absolute.

    Yields:
        its path and a descriptor to write to, which the block closes. At the end it is removed, if it is still there.
    """
    folder, name = os.path.split(path)
    prefix = f".{name[:60]}."  # names may have 255 bytes
    _remove_abandoned(folder, prefix)
    temporary, descriptor = os.path.join(folder, f"{prefix}{secrets.token_hex(4)}.tmp"), None
    with unfinished(temporary):
        try:  # before the file is there, as a signal may come in the moment in which it is made
            descriptor = _create(temporary)
            yield temporary, os.dup(descriptor)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            if descriptor is not None:
                os.close(descriptor)  # and with it the lock


@contextlib.contextmanager
def temporary_folder_beside(path: str) -> Iterator[str]:
    """Makes a new hidden folder in the folder of `path`, for what a job holds on the disk meanwhile.

    What a process left for the same path that was killed is removed first; a folder of one that lives is locked.

    Args:
        path: str, of the file that is being made. Absolute.

    Yields:
        its path. At the end it is removed with all that it holds.
    """
    folder, name = os.path.split(path)
    prefix = f".{name[:60]}."
    _remove_abandoned(folder, prefix)
    temporary, descriptor = os.path.join(folder, f"{prefix}{secrets.token_hex(4)}.tmp"), None
    with unfinished(temporary):
        try:
            descriptor = _create_folder(temporary)
            yield temporary
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            if descriptor is not None:
                os.close(descriptor)


def _create(path):
    while True:
        # os.open, unlike tempfile, leaves the permissions to the umask.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with contextlib.suppress(OSError):  # a file system without locks; nothing is removed there
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # before it was locked, another process took it for abandoned


def _create_folder(path):
    while True:
        os.mkdir(path)
        with contextlib.suppress(FileNotFoundError):  # taken for abandoned, as in `_create`
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.isdir(path):
                return descriptor
            os.close(descriptor)


def _remove_abandoned(folder, prefix):
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(prefix) and re.fullmatch(r"[0-9a-f]{8}\.tmp", name[len(prefix) :]):
                with contextlib.suppress(OSError):
                    _remove_unless_locked(os.path.join(folder, name))


def _remove_unless_locked(path):
    is_folder = os.path.isdir(path)
    descriptor = os.open(path, (os.O_RDONLY if is_folder else os.O_WRONLY) | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_folder:
            shutil.rmtree(path)
        else:
            os.unlink(path)
    finally:
        os.close(descriptor)


# Seconds to try again: a job that is just ending has removed the lock file that it still holds.
_PATIENCE = 0.1
# What flock raises on a file system without locks, such as some network file systems.
_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def directory_lock(folder: FilePath, job: str, argument: str) -> Iterator[None]:
    """Keeps other jobs of the same kind out of a directory while the `with` block runs.

    Jobs of the same process are kept out, too; jobs that only read the directory do not use the lock. The kernel
    releases the lock when the process ends, even if it is killed: the lock file that it leaves stops nobody. On a file
    system without locks (flock), every job is let in.

    Args:
        folder: path of the directory. It is made if it does not exist, and removed at the end if it is empty.
        job: str. What writes to the directory, such as "training". The lock file is named after it.
        argument: str. What a user names the directory with, such as "--model_dir".

    Raises:
        InputError: if another such job holds the lock, or the directory cannot be made or written to.
    """
    folder = pathlib.Path(folder)
    path = folder / f".{job}.lock"
    try:
        with explained(folder, "to make a directory"):
            folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path, _PATIENCE, poll_interval=_PATIENCE / 10, fallback_to_soft=False)
        _acquire(lock, path, job, argument)
        try:
            with unfinished(path):
                with explained(path, "to write"):
                    path.write_text(f"process {os.getpid()} on {socket.gethostname()}")
                yield
        finally:
            path.unlink(missing_ok=True)  # before the release: afterwards it may be the lock file of another job
            lock.release()
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _acquire(lock: filelock.BaseFileLock, path: pathlib.Path, job: str, argument: str) -> None:
    with explained(path, "to lock the directory"):
        try:
            lock.acquire()
        except filelock.Timeout:
            raise InputError(
                f"found another {job} at work in it ({_holder(path)})",
                "expected one at a time",
                f"wait until it ends, or give another {argument}",
                path.parent,
            ) from None
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise


def _holder(path: pathlib.Path) -> str:
    """The process that holds the lock, as it wrote itself into the lock file."""
    try:
        return path.read_text(errors="replace") or "another process"
    except OSError:
        return "another process"
