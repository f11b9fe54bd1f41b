"""Checks that the libraries of the optional extras are installed."""

import importlib.util
from types import ModuleType

LIBRARIES = {
    "web": ("starlette", "uvicorn"),
    "analysis": ("jinja2", "matplotlib", "openTSNE"),
    "ray": ("ray",),
    "metrics": ("prometheus_client",),
    "remote": ("fsspec", "aiohttp", "s3fs", "gcsfs", "huggingface_hub"),
}


def check_extra(extra: str, user: str) -> None:
    """Checks that the libraries of an extra are installed. Call it before anything is loaded or computed.

    Args:
        extra: str. The name of the extra, such as "web".
        user: str. What needs it, such as "The page".

    Raises:
        ImportError: if a library is missing. The error names the extra to install.
    """
    for library in LIBRARIES[extra]:
        if not importlib.util.find_spec(library):
            raise ImportError(f'{user} needs {library}, which is not installed: pip install "keras-encdec[{extra}]".')


def import_sacrebleu(otherwise: str = "") -> ModuleType:
    """Imports sacrebleu, which belongs to the extra `smt`.

    Args:
        otherwise: str. What the user can do instead of installing it, with a comma at the start. Defaults to nothing.

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
