"""RNN Encoder-Decoder of Cho et al., 2014, for Keras 3: p(target phrase | source phrase)."""

import os

__version__ = "0.1.0"


def _checkout() -> list[str]:
    """The folder that has `trainers` and `export` beside this package: a checkout, where they are not inside it.

    So they are found where the working directory is a checkout, which Python prefers to an installed package. The
    name of the project tells its folders from those of others.
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
