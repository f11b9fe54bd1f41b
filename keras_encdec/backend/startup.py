"""Starts Keras in a command or a worker: imports it quickly and quietly, keeps compiled programs, sets up memory."""

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import pathlib
import pickle
import platform
import re
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from keras_encdec import __version__
from keras_encdec.errors import InputError
from keras_encdec.runtime.control_groups import processor_limit
from keras_encdec.runtime.imports import import_triton
from keras_encdec.runtime.workers import THREAD_VARIABLES, available_processors

if TYPE_CHECKING:
    from keras_encdec.runtime.engines import Work

_START_UP = re.compile(rb"WARNING: All log messages before absl::|[IWE]\d{4} |\d{4}-\d\d-\d\d .*(tensorflow|cuda|xla)")
# Held while the standard error is redirected. A thread may redirect it again.
_HUSHING = threading.RLock()
# The environment variable that turns the cache of compiled programs off if it is 0.
CACHE_SWITCH = "ENCDEC_COMPILATION_CACHE"
# Maximum size of the cache in bytes. JAX removes the least recently used programs; TensorFlow's oldest programs are
# removed at each start.
MAX_CACHE_BYTES = 1 << 29
# Bytes that the disk must have room for, or the cache is not used: TensorFlow fails if it cannot write a program. The
# largest programs take 4 MB.
_ROOM = 1 << 24
# Libraries that Keras imports in a `try` statement: it runs without them.
_OPTIONAL = ("IPython", "matplotlib", "pandas", "sklearn")
# Further optional libraries of each backend: TensorFlow, for example, runs without JAX and SciPy.
_OPTIONAL_WITH = {"tensorflow": ("jax", "scipy"), "torch": ("jax", "requests", "scipy"), "jax": ("requests",)}
_DYNAMO = "torch._dynamo"
_TENSORFLOW_CACHE = "--tf_xla_persistent_cache_directory"
_PROGRAM = ".pb"  # the extension of TensorFlow's programs, except of one that is still being written


def import_keras(backend: str | None = None) -> None:
    """Imports Keras without the start-up messages of its backend; commands call this before they import Keras.

    TensorFlow writes its first messages before any setting can stop it, and they mean nothing to the user of a command.
    All other messages of the import are shown. Optional libraries that no command needs are not imported, and JAX and
    TensorFlow keep the programs that they compile for the next start. In a container whose processor time is limited,
    the backend starts no more threads than the limit allows to run.

    Args:
        backend: str. The backend to use in place of the user's choice: a SavedModel is made with TensorFlow, which
            loads weights that any backend trained. If Keras was imported before, it keeps its backend. Optional.

    Raises:
        InputError: if the backend cannot be imported, or if Keras rejects its settings file.
        MemoryError: if the memory does not suffice for the backend's libraries.
    """
    if backend:
        os.environ["KERAS_BACKEND"] = backend
    chosen = configured_backend()
    if chosen in ("jax", "tensorflow") and chosen not in sys.modules:
        keep_compiled_programs()
    if processor_limit() is not None:  # the libraries would start a thread for each processor of the machine
        number = str(available_processors())
        for name in THREAD_VARIABLES:
            os.environ.setdefault(name, number)
    # PyTorch has no such messages, and the message of a library that ends the process, such as oneMKL, would be lost.
    hushed = contextlib.nullcontext() if chosen == "torch" else quietly()
    try:
        with hushed, lean_imports():
            keras = importlib.import_module("keras")
            if keras.backend.backend() == "tensorflow":
                # Looking for a GPU writes another message.
                importlib.import_module("tensorflow").config.list_physical_devices()
    except (ImportError, ValueError, AttributeError) as error:
        if (found := _refused_settings(error)) is not None:
            remedy = "correct it or delete it: Keras writes a new one"
            raise InputError(f"found {found}", "expected settings of Keras", remedy, settings_file()) from error
        if isinstance(error, AttributeError):
            raise
        if "failed to map segment" in str(error):  # the dynamic linker's words
            raise MemoryError(str(error)) from error
        raise InputError(
            f"found no usable backend of Keras ({error})",
            "expected tensorflow, jax or torch",
            'install it (pip install "keras-encdec[jax]" or "keras-encdec[torch]"), '
            "or set KERAS_BACKEND to one that is installed",
        ) from error


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppresses TensorFlow's start-up messages in the `with` block; other messages are shown when it ends.

    Threads wait for one another: each would otherwise restore what another had put in place of the standard error.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    # In memory where the system supports that: a container may have no writable directory for temporary files.
    in_memory = sys.platform == "linux"
    with _HUSHING, os.fdopen(os.memfd_create("messages"), "w+b") if in_memory else tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if not _START_UP.match(line)))


def software() -> dict[str, str]:
    """Returns the versions and the backend that determine the last digits of what a model computes."""
    keras = importlib.import_module("keras")
    return {"keras-encdec": __version__, "keras": keras.__version__, "backend": keras.backend.backend()}


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # from glibc's malloc.h


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

    Unpickling a function imports its module, and so Keras with its start-up messages. An object of this class is
    therefore sent to a worker process with its function still pickled.

    Args:
        load: callable without arguments that loads the models and returns the function that processes a shard, such as
            a `functools.partial` of a class; or that callable pickled.
        own_process: bool. Whether the worker is a separate process, whose use of memory may be changed.
    """

    def __init__(self, load: "Callable[[], Work] | bytes", own_process: bool) -> None:
        self._load, self._own_process = load, own_process

    def __reduce__(self) -> tuple[type, tuple[bytes, bool]]:
        pickled = self._load if isinstance(self._load, bytes) else pickle.dumps(self._load)
        return type(self), (pickled, self._own_process)

    def __call__(self) -> "Work":
        """Imports Keras and loads the models. See `WorkOpener`."""
        import_keras()
        load = pickle.loads(self._load) if isinstance(self._load, bytes) else self._load
        if self._own_process:
            keep_freed_memory()
        work: Work = load()
        return work


def keep_compiled_programs() -> None:
    """Turns on the cache of compiled programs of JAX or TensorFlow; must be called before either is imported.

    Settings of the user stay as they are: JAX's environment variables, and the flags in `TF_XLA_FLAGS`.

    The cache is a folder for each kind of processor, because a program may use instructions that another processor
    lacks, and home directories are shared. `benchmarks/first_output.py` measures what a second start saves.
    """
    backend, flags = configured_backend(), os.environ.get("TF_XLA_FLAGS", "")
    chosen = _TENSORFLOW_CACHE in flags if backend == "tensorflow" else "JAX_COMPILATION_CACHE_DIR" in os.environ
    if os.environ.get(CACHE_SWITCH) == "0" or chosen:
        return
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, _ROOM)  # takes no time where the file system can reserve room
            else:
                file.write(bytes(_ROOM))
    except OSError:  # a folder of another user, or a full disk or quota
        return
    if backend == "tensorflow":
        if " " not in str(folder):  # the variable holds flags divided by spaces
            _make_room(folder, MAX_CACHE_BYTES)
            os.environ["TF_XLA_FLAGS"] = f"{flags} {_TENSORFLOW_CACHE}={folder}".strip()
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MAX_CACHE_BYTES))
    # The many small programs for a few lines are kept, too. By default, JAX keeps none that compiled within a second.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def _make_room(folder: pathlib.Path, max_bytes: int) -> None:
    """Removes empty programs, and the oldest files of a folder until the others have at most `max_bytes`.

    After a power failure, a program may be empty, and TensorFlow would fail to read it.
    """
    with contextlib.suppress(OSError):  # another process may remove the same ones
        kept = 0
        for path in sorted(folder.iterdir(), key=lambda path: -path.stat().st_mtime):
            size = path.stat().st_size
            kept += size
            if kept > max_bytes or (not size and path.suffix == _PROGRAM):
                path.unlink()


def cache_folder() -> pathlib.Path | None:
    """Returns the cache folder for the backend and this processor, in `XDG_CACHE_HOME` or `~/.cache`.

    Each installation of TensorFlow has its own folder. Returns `None` for a user without a home directory.
    """
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not root.is_absolute():  # the specification of the variable says to ignore it
        root = pathlib.Path(os.path.expanduser("~/.cache"))
        if not root.is_absolute():
            return None
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        processor = " ".join(sorted(set(re.findall(r"^(?:flags|Features)\s*:.*$", text, re.MULTILINE))))
    except OSError:
        processor = platform.processor()
    kind = f"{platform.machine()} {processor} {os.environ.get('XLA_FLAGS', '')}"
    backend = configured_backend()
    if backend == "tensorflow":
        # Unlike JAX, TensorFlow does not know which version compiled a program.
        spec = importlib.util.find_spec("tensorflow")
        installed = os.stat(spec.origin).st_mtime_ns if spec and spec.origin else 0
        flags = [flag for flag in os.environ.get("TF_XLA_FLAGS", "").split() if _TENSORFLOW_CACHE not in flag]
        kind = " ".join([kind, str(installed), *flags])
    return root / "keras-encdec" / f"{backend}-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def lean_imports() -> Iterator[None]:
    """Hides optional libraries from what the `with` block imports; afterwards they are imported as usual.

    A library that was imported before is not hidden.
    """
    backend = configured_backend()
    hidden = [name for name in _OPTIONAL + _OPTIONAL_WITH.get(backend, ()) if name not in sys.modules]
    # Python raises ModuleNotFoundError for a module that is `None`.
    stand_ins: dict[str, types.ModuleType | None] = dict.fromkeys(hidden)
    if backend == "torch" and _DYNAMO not in sys.modules:
        with contextlib.suppress(ImportError):  # Keras will explain that it is missing
            importlib.import_module("torch")
            stand_ins[_DYNAMO] = _LateDynamo(_DYNAMO)
            import_triton()  # which torch._dynamo would import later, perhaps after TensorFlow
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name, sys) is stand_in:
                del sys.modules[name]


def settings_file() -> pathlib.Path:
    """Returns the path of Keras's settings file: in `KERAS_HOME`, `~/.keras`, or `/tmp/.keras` if ~ is not writable."""
    folder = os.environ.get("KERAS_HOME")
    if folder is None:
        home = os.path.expanduser("~")
        folder = os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    return pathlib.Path(os.path.expanduser(os.path.join(folder, "keras.json")))


def configured_backend() -> str:
    """Returns the backend that Keras will use: that of `KERAS_BACKEND`, or of Keras's settings file."""
    if backend := os.environ.get("KERAS_BACKEND"):
        return backend
    return backend_in_settings() or "tensorflow"


def backend_in_settings() -> str | None:
    """Returns the backend that Keras's settings file names; `None` if it names none or Keras ignores it."""
    settings = _settings()
    backend = settings.get("backend") if isinstance(settings, dict) else None
    return str(backend) if backend else None


def _settings() -> object:
    """Reads Keras's settings file; returns `None` if it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(settings_file().read_text(encoding="utf-8"))
    return None


def _refused_settings(error: Exception) -> str | None:
    """Returns what the settings file contains if Keras rejected it with this error, otherwise `None`."""
    if isinstance(error, ValueError) and str(error).startswith("Invalid `"):
        return f"a setting that Keras refuses ({str(error).rstrip('.')})"
    if isinstance(error, AttributeError) and not isinstance(settings := _settings(), dict | None):
        return f"{type(settings).__name__} in JSON"
    return None


class _LateDynamo(types.ModuleType):
    """Stands in for PyTorch's compiler while Keras is imported, which uses only the compiler's decorator `disable`.

    Importing the compiler itself takes a quarter of the time. The functions that Keras decorates are disabled when they
    are called, if the compiler has been imported by then.
    """

    def disable(self, function: Callable[..., object] | None = None, **options: Any) -> Callable[..., object]:
        """Does what `torch._dynamo.disable` does, with or without a function."""
        if function is None:
            return functools.partial(self.disable, **options)

        @functools.wraps(function)
        def call(*arguments: object, **keywords: object) -> object:
            compiler = sys.modules.get(_DYNAMO)
            called = compiler.disable(function, **options) if compiler and compiler is not self else function
            return called(*arguments, **keywords)

        return call

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_DYNAMO) is self:
            del sys.modules[_DYNAMO]
        return getattr(importlib.import_module(_DYNAMO), name)
