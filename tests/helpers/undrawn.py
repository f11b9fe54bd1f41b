"""Runs a report without compiling its scorers and without drawing its figures."""

import contextlib
from unittest import mock

from eagerly import uncompiled


@contextlib.contextmanager
def undrawn():
    """Figures become files without being drawn, and nothing that scores or searches is compiled for TensorFlow."""

    def savefig(self, file, **_):
        file.write(b"<svg/>")

    with uncompiled(), mock.patch("matplotlib.figure.Figure.savefig", savefig):
        yield
