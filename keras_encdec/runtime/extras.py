"""Optional parts of the package: the libraries of each extra, and the error where one is missing."""

import importlib.util

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
