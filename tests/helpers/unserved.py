"""Runs `encdec-serve` up to where it would wait for browsers."""

import contextlib
from unittest import mock


@contextlib.contextmanager
def unserved():
    """No server of the package listens for longer than a moment, and nothing is compiled for it."""

    async def serve(self, sockets):
        assert sockets and self.config.app

    with mock.patch("uvicorn.Server.serve", serve):
        with mock.patch("keras_encdec.web.explorer.Explorer.preparations", lambda self: iter([lambda: None])):
            yield
