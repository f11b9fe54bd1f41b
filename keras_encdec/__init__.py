"""RNN Encoder-Decoder of Cho et al., 2014, for Keras 3: p(target phrase | source phrase)."""

import os

__version__ = "0.1.0"


def _checkout_folders() -> list[str]:
    """Lists additional folders in which Python looks for `keras_encdec.trainers` and `keras_encdec.export`.

    An installed package contains both, so the list is empty. In a checkout they are next to this package: the list is
    the checkout's folder, which the project's name in pyproject.toml identifies. A checkout in the working directory
    needs this even where the package is installed, because Python prefers the checkout.
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


__path__ += _checkout_folders()
