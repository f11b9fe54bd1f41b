"""Imports at first use, and checks that the libraries of the optional extras are installed."""

import ast
import contextlib
import importlib
import importlib.util
import pkgutil
import sys
import types
from types import ModuleType

LIBRARIES = {
    "web": ("starlette", "uvicorn"),
    "analysis": ("jinja2", "matplotlib", "openTSNE"),
    "ray": ("ray",),
    "serving": ("tensorflow_serving", "grpc", "requests", "tenacity"),
    "metrics": ("prometheus_client",),
    "remote": ("fsspec", "aiohttp", "s3fs", "gcsfs", "huggingface_hub"),
}


def lazy_imports(package: str) -> None:
    """Makes a package import each name in its `if TYPE_CHECKING:` block when the name is first used.

    `--help` and errors about flags therefore do not need Keras, while type checkers and documentation tools see plain
    imports. Each import in the block has the form `from module import name as name`. If a name is also the name of a
    submodule, the package exports what the submodule defines, as with a plain import.

    Example, in `__init__.py`:

        if TYPE_CHECKING:
            from keras_encdec.models.contract import Decoder as Decoder

        lazy_imports(__name__)
    """
    module = sys.modules[package]
    tree = ast.parse(pkgutil.get_data(package, "__init__.py") or b"")
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [line for block in blocks for line in block.body if isinstance(line, ast.ImportFrom)]
    sources = {name.name: line.module for line in imports for name in line.names}
    module.__dict__.update(__all__=sorted(sources), _lazy_sources=sources)
    module.__class__ = _LazyPackage


class _LazyPackage(types.ModuleType):
    _lazy_sources: dict[str, str]

    def __getattr__(self, name: str) -> object:
        source = self._lazy_sources.get(name)
        if source is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(source), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a submodule sets it as an attribute, which must not hide an exported object of the same name.
        if isinstance(value, types.ModuleType) and value.__name__ == self._lazy_sources.get(name):
            value = getattr(value, name)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._lazy_sources})


def check_extra(extra: str, user: str, *libraries: str) -> None:
    """Checks that the libraries of an extra are installed. Call it before anything is loaded or computed.

    Args:
        extra: str. The name of the extra, such as "web".
        user: str. What needs it, such as "The page".
        *libraries: str. The libraries of the extra that are needed. Defaults to those in `LIBRARIES`.

    Raises:
        ImportError: if a library is missing. The error names the extra to install.
    """
    for library in libraries or LIBRARIES[extra]:
        if not importlib.util.find_spec(library):
            raise ImportError(f"{user} needs {library}, {not_installed(library, extra)}.")


def not_installed(library: str, extra: str) -> str:
    """Returns the end of a sentence that says how to install a missing library of an extra."""
    if library == "kenlm" and sys.version_info >= (3, 13):
        return "which cannot be built for Python 3.13 or newer: use Python 3.12"
    return f'which is not installed: pip install "keras-encdec[{extra}]"'


def import_triton() -> None:
    """Imports Triton, which comes with PyTorch for GPUs, if it is installed and TensorFlow has not been imported.

    Call this before importing TensorFlow: if the backend is PyTorch, TensorFlow imports Keras, Keras imports PyTorch,
    and PyTorch imports Triton. If Triton is imported during or after the import of TensorFlow, the process ends with a
    segmentation fault (Triton 3.7, TensorFlow 2.21).
    """
    if "tensorflow" not in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module("triton")


def import_sacrebleu(otherwise: str = "") -> ModuleType:
    """Imports sacrebleu, which belongs to the extra `smt`.

    Args:
        otherwise: str. What else the user can do, after a comma, to end the error with. Defaults to nothing.

    Raises:
        ImportError: if it is not installed.
    """
    try:
        import sacrebleu
    except ImportError as error:
        raise ImportError(
            f'BLEU needs sacrebleu, which is not installed: pip install "keras-encdec[smt]"{otherwise}.'
        ) from error
    return sacrebleu
