"""A lock that lets one job at a time write to a directory."""

import contextlib
import errno
import os
import pathlib
import socket
from collections.abc import Iterator

import filelock

from keras_encdec.errors import InputError
from keras_encdec.runtime.os_errors import FilePath, explained
from keras_encdec.runtime.unfinished import unfinished

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
