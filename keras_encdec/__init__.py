"""RNN Encoder-Decoder of Cho et al., 2014, for Keras 3: p(target phrase | source phrase)."""

import os

__version__ = "0.1.0"


def _checkout() -> list[str]:
    """Returns the folder that contains `trainers` and `export` in a checkout, where they are next to this package.

    Python prefers a checkout in the working directory to the installed package, so both must be found there. The
    project's name in pyproject.toml shows that the folder is such a checkout.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    folder = os.path.dirname(package)
    if os.path.exists(os.path.join(package, "trainers")):
        return []
    try:
        with open(os.path.join(folder, "pyproject.toml"), encoding="utf-8") as project:
            return [folder] if 'name = "keras-encdec"\n' in project else []
    except (OSError, UnicodeDecodeError):
        return []


__path__ += _checkout()
