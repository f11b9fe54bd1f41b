"""One job at a time in a directory."""

import contextlib
import fcntl
import os
import pathlib
import socket
from collections.abc import Iterator

from keras_encdec.errors import InputError
from keras_encdec.formats.os_errors import explained
from keras_encdec.formats.unfinished import unfinished


@contextlib.contextmanager
def directory_lock(folder: str | os.PathLike[str], job: str, argument: str) -> Iterator[None]:
    """Keeps other jobs of the same kind out of a directory, of this process too, for the time of the `with` block.

    The kernel lifts the lock when the process ends, however it ends: what a killed job leaves is no obstacle. Jobs that
    only read the directory take no notice of it. On a file system without locks (flock) every job is let in.

    Args:
        folder: path of the directory, made if need be, and removed at the end if it is empty.
        job: str. What writes to the directory, such as "training"; also in the name of the lock file.
        argument: str. What the directory is given as, such as "--model_dir".

    Raises:
        InputError: when another such job is at work there, or the folder cannot be made or written to.
    """
    folder = pathlib.Path(folder)
    lock = folder / f".{job}.lock"
    try:
        with explained(folder, "to make a directory"):
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(lock, job, argument)
        try:
            with unfinished(lock):
                yield
        finally:
            lock.unlink(missing_ok=True)  # first, so that nobody locks it who would lose it
            os.close(descriptor)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _locked(path, job, argument):
    """Locks the file, made if need be, and gives its descriptor."""
    while True:
        with explained(path, "to lock the directory"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 1 << 10).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise InputError(
                f"found another {job} at work in it ({holder})", "expected one at a time",
                f"wait until it ends, or give another {argument}", path.parent,
            ) from None  # fmt: skip
        except OSError:
            pass  # a file system without locks
        if _is_at(descriptor, path):
            with explained(path, "to write"):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)  # that of a job which ended in this moment, and removed it


def _is_at(descriptor, path):
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
