"""Serving the page as a function."""

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.web.app import create_app
from keras_encdec.web.computations import Computations
from keras_encdec.web.explorer import Explorer
from keras_encdec.web.neighbourhood import known_phrases
from keras_encdec.web.request_limits import RequestLimits

# Connections at a time; more are refused.
MOST_CONNECTIONS = 100


def serve(
    model_dir: FilePath | ModelDirectory,
    host: str = "127.0.0.1",
    port: int = 8080,
    *,
    phrase_table: FilePath | None = None,
    input: FilePath | None = None,
    encoding: str | None = None,
    limits: RequestLimits | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Serves a page to try a model on, until it is interrupted.

    The page is opened when what short phrases need is compiled; what longer ones need is compiled while nobody asks.

    Args:
        model_dir: directory of a model with a source, or a loaded ModelDirectory.
        host: str. Name or address to listen at. Defaults to "127.0.0.1": only this machine reaches it.
        port: int. Defaults to `8080`; 0 for any free one, which `say` is told.
        phrase_table, input, encoding: where the phrases come from among which neighbours are found, see
            `known_phrases`. Default to the model's training data.
        limits: RequestLimits. Defaults to `RequestLimits()`.
        say: callable of str, told what is done and where the page is. Defaults to silence.

    Raises:
        ConfigurationError: a ValueError, for both a phrase table and a text.
        InputError: when the model or a file cannot be used, or the port is not free.
        KeyboardInterrupt: when it is interrupted.

    Example:

        serve("model", say=print)
    """
    if phrase_table is not None and input is not None:
        raise ConfigurationError("found {phrase_table} with {input}, expected one of them")
    with _listening(host, port) as listening:
        directory = ModelDirectory.open(model_dir)
        explorer = Explorer(directory, known_phrases(directory, phrase_table, input, encoding=encoding), limits)
        say("Compiling.")
        preparations, computations = explorer.preparations(), Computations()
        next(preparations)()
        app = create_app(explorer, _names(host), computations)
        address = f"[{host}]" if ":" in host else host
        if not _is_loopback(host):
            say(f"warning: whoever reaches {address} can use the page, without a password and without encryption.")
        threading.Thread(target=_prepare, args=(preparations, computations), daemon=True).start()
        say(f"Open http://{address}:{listening.getsockname()[1]} in a browser; Ctrl-C ends the server.")
        configuration = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,  # its own closes the handlers of all loggers, and absl's then closes standard error
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
        )
        try:
            asyncio.run(_Server(configuration).serve([listening]))
        finally:
            computations.close()


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listening(host, port):
    """A socket that waits for connections, taken before a model is loaded for nothing."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InputError(
            f"found {host}, port {port}, not to be listened at ({reason})",
            "expected an address of this machine and a free port",
            "give another --port or --host",
        ) from error


def _prepare(preparations, computations):
    """One after another, so that requests come between them."""
    with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # the server was ended meanwhile
        for step in preparations:
            computations.submit(step).result()


def _names(host):
    """What a browser may call the machine: of one that others cannot reach, its own names."""
    return list(dict.fromkeys((host.lower(), "localhost", "127.0.0.1", "::1"))) if _is_loopback(host) else None


def _is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
