"""The libraries of the optional extras, and the error where one is missing."""

import importlib.util
from types import ModuleType

LIBRARIES = {"web": ("starlette", "uvicorn"), "analysis": ("matplotlib", "openTSNE")}


def check_extra(extra: str, user: str) -> None:
    """Checks that the libraries of an extra are installed, before anything is loaded or computed.

    Args:
        extra: str. Its name, such as "web".
        user: str. What needs it, such as "The page".

    Raises:
        ImportError: when a library is missing; it names the extra to install.
    """
    for library in LIBRARIES[extra]:
        if not importlib.util.find_spec(library):
            raise ImportError(f'{user} needs {library}, which is not installed: pip install "keras-encdec[{extra}]".')


def import_sacrebleu(otherwise: str = "") -> ModuleType:
    """Imports sacrebleu, which belongs to the extra `smt`.

    Args:
        otherwise: str. What the user can do without, starting with a comma. Defaults to nothing.

    Raises:
        ImportError: when it is not installed.
    """
    try:
        import sacrebleu
    except ImportError as error:
        raise ImportError(
            f'BLEU needs sacrebleu, which is not installed: pip install "keras-encdec[smt]"{otherwise}.'
        ) from error
    return sacrebleu
