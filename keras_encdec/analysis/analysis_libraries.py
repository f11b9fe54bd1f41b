"""The libraries that draw, where they are installed."""

import importlib.util


def check_analysis_libraries() -> None:
    """Raises ImportError where a library of the extra `analysis` is missing, before anything is computed."""
    for library in ("matplotlib", "openTSNE"):
        if not importlib.util.find_spec(library):
            raise ImportError(
                f'The report needs {library}, which is not installed: pip install "keras-encdec[analysis]".'
            )
