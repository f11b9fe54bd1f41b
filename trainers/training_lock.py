"""One training at a time in a model directory."""

import contextlib
import fcntl
import os
import pathlib
import socket
from collections.abc import Iterator

from keras_encdec.errors import InputError
from keras_encdec.formats.os_errors import explained
from keras_encdec.formats.unfinished import unfinished

LOCK = ".training.lock"


@contextlib.contextmanager
def training_lock(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps other trainings out of a model directory, of this process too, for the time of the `with` block.

    The kernel lifts the lock when the process ends, however it ends: what a killed training leaves is no obstacle.
    Jobs that only read a model directory take no notice of it. On a file system without locks (flock) every training
    is let in.

    Args:
        folder: path of the model directory, made if need be, and removed at the end if it is empty.

    Raises:
        InputError: when another training is at work there, or the folder cannot be made or written to.
    """
    folder = pathlib.Path(folder)
    try:
        with explained(folder, "to make a directory"):
            folder.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(folder / LOCK)
        try:
            with unfinished(folder / LOCK):
                yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)  # first, so that nobody locks it who would lose it
            os.close(descriptor)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _locked(path):
    """Locks the file, made if need be, and gives its descriptor."""
    while True:
        with explained(path, "to lock the model directory"):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 1 << 10).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise InputError(
                f"found another training at work in it ({holder})", "expected one at a time",
                "wait until it ends, or give another --model_dir", path.parent,
            ) from None  # fmt: skip
        except OSError:
            pass  # a file system without locks
        if _is_at(descriptor, path):
            with explained(path, "to write"):
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)  # that of a training which ended in this moment, and removed it


def _is_at(descriptor, path):
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
