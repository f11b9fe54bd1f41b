"""The libraries that serve pages, where they are installed."""

import importlib.util


def check_web_libraries() -> None:
    """Raises ImportError where a library of the extra `web` is missing, before a model is loaded."""
    for library in ("starlette", "uvicorn"):
        if not importlib.util.find_spec(library):
            raise ImportError(f'The page needs {library}, which is not installed: pip install "keras-encdec[web]".')
