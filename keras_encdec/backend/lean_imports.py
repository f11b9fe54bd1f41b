"""Keeps libraries that no command needs from being imported along with Keras.

Keras, and TensorFlow, import optional libraries where they are installed, for functions that no command calls:
wrappers for scikit-learn, galleries of images, data frames. `benchmarks/first_output.py` measures what this saves: half
of the processor time of the import, where the extras of this package are installed.
"""

import contextlib
import functools
import importlib
import json
import os
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

# Libraries that Keras imports in a `try` statement, and does without.
_OPTIONAL = ("IPython", "matplotlib", "pandas", "sklearn")
# The same for a backend; TensorFlow itself does without JAX and SciPy.
_OPTIONAL_WITH = {"tensorflow": ("jax", "scipy"), "torch": ("jax", "requests", "scipy"), "jax": ("requests",)}
_DYNAMO = "torch._dynamo"


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
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            if sys.modules.get(name, sys) is stand_in:
                del sys.modules[name]


def configured_backend() -> str:
    """The backend that Keras will use when it is imported: that of `KERAS_BACKEND`, or of Keras's file of settings."""
    if backend := os.environ.get("KERAS_BACKEND"):
        return backend
    home = os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras"
    try:
        settings = json.loads((pathlib.Path(home) / "keras.json").read_text(encoding="utf-8"))
        return str(settings.get("backend", "tensorflow"))
    except (OSError, ValueError, AttributeError):
        return "tensorflow"


class _LateDynamo(types.ModuleType):
    """Stands in for the compiler of PyTorch, of which Keras only uses the decorator `disable` when it is imported.

    The real one is a quarter of the import's time. The functions that Keras marks are marked when they are called, if
    the compiler has been imported by then.
    """

    def disable(self, function: Callable[..., Any] | None = None, **options: Any) -> Callable[..., Any]:
        """As `torch._dynamo.disable`, with or without a function."""
        if function is None:
            return functools.partial(self.disable, **options)

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            compiler = sys.modules.get(_DYNAMO)
            called = compiler.disable(function, **options) if compiler and compiler is not self else function
            return called(*arguments, **keywords)

        return call

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_DYNAMO) is self:
            del sys.modules[_DYNAMO]
        return getattr(importlib.import_module(_DYNAMO), name)
