"""Starts Keras in a command or a worker: its import without start-up messages, and how its process uses memory."""

import contextlib
import ctypes
import importlib
import os
import pickle
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from keras_encdec import __version__
from keras_encdec.backend.compilation_cache import keep_compiled_programs
from keras_encdec.backend.lean_imports import configured_backend, lean_imports
from keras_encdec.errors import InputError

if TYPE_CHECKING:
    from keras_encdec.runtime.engines import Work

_START_UP = re.compile(rb"WARNING: All log messages before absl::|[IWE]\d{4} |\d{4}-\d\d-\d\d .*(tensorflow|cuda|xla)")


def import_keras(backend: str | None = None) -> None:
    """Imports Keras without the start-up messages of its backend; commands call this before they import Keras.

    TensorFlow writes its first messages before any setting can stop it, and they mean nothing to the user of a command.
    All other messages of the import are shown. Optional libraries that no command needs are not imported, and JAX keeps
    the programs that it compiles for the next start.

    Args:
        backend: str. The backend to use in place of the user's choice: a SavedModel is made with TensorFlow, which
            loads weights that any backend trained. If Keras was imported before, it keeps its backend. Optional.

    Raises:
        InputError: if the backend cannot be imported.
    """
    if backend:
        os.environ["KERAS_BACKEND"] = backend
    if configured_backend() == "jax" and "jax" not in sys.modules:
        keep_compiled_programs()
    try:
        with quietly(), lean_imports():
            keras = importlib.import_module("keras")
            if keras.backend.backend() == "tensorflow":
                # Looking for a GPU writes another message.
                importlib.import_module("tensorflow").config.list_physical_devices()
    except (ImportError, ValueError) as error:
        raise InputError(
            f"found no usable backend of Keras ({error})",
            "expected tensorflow, jax or torch",
            "install it, or set KERAS_BACKEND to one that is installed",
        ) from error


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppresses TensorFlow's start-up messages in the `with` block; other messages are shown when it ends."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if not _START_UP.match(line)))


def software() -> dict[str, str]:
    """Returns the versions and the backend that decide the last digits of what a model computes."""
    keras = importlib.import_module("keras")
    return {"keras-encdec": __version__, "keras": keras.__version__, "backend": keras.backend.backend()}


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory for the process instead of returning it to the system.

    By default glibc returns blocks of many megabytes at once, and the system clears every page when they are allocated
    again: up to a fifth of the time of a training step. Only the first of glibc's arenas can hold blocks of this size,
    so the number of arenas is 1. Under TensorFlow it is 2: its threads would wait for each other, and a small model
    trains a tenth faster with a second arena. Without glibc, nothing happens.
    """
    arenas = 2 if importlib.import_module("keras").backend.backend() == "tensorflow" else 1
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, value in ((_ARENA_MAX, arenas), (_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1)):
            mallopt(option, value)


class KerasWork:
    """Loads models in a worker after Keras has been imported there: a `keras_encdec.runtime.engines.WorkOpener`.

    To unpickle a function is to import its module, and with it Keras and its start-up messages. An object of this class
    therefore travels to a worker process with its function still pickled.

    Args:
        load: callable without arguments that loads the models and returns the work on a shard, such as a
            `functools.partial` of a class; or that callable pickled.
        own_process: bool. Whether the worker is a process of its own, which may change how it uses memory.
    """

    def __init__(self, load: "Callable[[], Work] | bytes", own_process: bool) -> None:
        self._load, self._own_process = load, own_process

    def __reduce__(self) -> tuple[type, tuple[bytes, bool]]:
        pickled = self._load if isinstance(self._load, bytes) else pickle.dumps(self._load)
        return type(self), (pickled, self._own_process)

    def open(self) -> "Work":
        """Imports Keras and loads the models. See `WorkOpener`."""
        import_keras()
        load = pickle.loads(self._load) if isinstance(self._load, bytes) else self._load
        if self._own_process:
            keep_freed_memory()
        work: Work = load()
        return work
