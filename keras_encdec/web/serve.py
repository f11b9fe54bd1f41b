"""Runs the web server."""

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.web.app import Computations, create_app
from keras_encdec.web.connections import MOST_CONNECTIONS, PromptProtocol
from keras_encdec.web.explorer import Explorer
from keras_encdec.web.neighbourhood import known_phrases
from keras_encdec.web.serve_options import ServeOptions


def serve(
    model_dir: FilePath | ModelDirectory,
    options: ServeOptions | None = None,
    *,
    phrase_table: FilePath | None = None,
    input: FilePath | None = None,
    say: Callable[[str], None] = lambda line: None,
    **values: Any,
) -> None:
    """Serves a web page for trying out a model, until it is interrupted.

    The server starts when the functions for short phrases are compiled. It compiles those for longer phrases while no
    request is waiting.

    Args:
        model_dir: directory of a model with a source, or a loaded ModelDirectory.
        options: ServeOptions. Defaults to `None`: the defaults of the command.
        phrase_table, input: files with the phrases to search for neighbours, see `known_phrases`. Default to the
            model's training data.
        say: callable that takes a line for each step, and the address of the page. Defaults to no output.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for a phrase table together with a text.
        InputError: when the model or a file cannot be used, or the port is taken.
        KeyboardInterrupt: when the user interrupts it.

    Example:

        serve("model", port=0, say=print)
    """
    if phrase_table is not None and input is not None:
        raise ConfigurationError("found {phrase_table} with {input}, expected one of them")
    options = ServeOptions.combined(options, values)
    host = options.host
    with _listening(host, options.port) as listening:
        directory = ModelDirectory.open(model_dir)
        phrases = known_phrases(directory, phrase_table, input, encoding=options.encoding)
        explorer = Explorer(directory, phrases, options)
        say("Compiling.")
        preparations, computations = explorer.preparations(), Computations()
        next(preparations)()
        app = create_app(explorer, _names(host), computations)
        address = f"[{host}]" if ":" in host else host
        if not _is_loopback(host):
            say(f"warning: everyone who can reach {address} can use the page; it has no password and no encryption.")
        threading.Thread(target=_prepare, args=(preparations, computations), daemon=True).start()
        say(f"Open http://{address}:{listening.getsockname()[1]} in a browser; Ctrl-C ends the server.")
        try:
            asyncio.run(server_of(app).serve([listening]))
        finally:
            computations.close()


def server_of(app: Starlette) -> uvicorn.Server:
    """Makes a server for an application; await its `serve([socket])`. It does not handle signals.

    Args:
        app: Starlette, from `create_app`.
    """
    configuration = uvicorn.Config(
        app,
        http=PromptProtocol,
        ws="none",
        lifespan="off",
        log_config=None,  # uvicorn's would close all log handlers, and absl's handler would then close standard error
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
    )
    return _Server(configuration)


class _Server(uvicorn.Server):
    """A server that does not handle signals."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listening(host, port):
    """Opens a listening socket. It is opened before the model is loaded, to report a port that is taken at once."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise InputError(
            f"cannot listen on {host}, port {port} ({reason})",
            "expected an address of this machine and a free port",
            "give another --port or --host",
        ) from error


def _prepare(preparations, computations):
    """Runs the preparations one by one, so that requests can run between them."""
    with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # the server has stopped meanwhile
        for step in preparations:
            computations.submit(step).result()


def _names(host):
    """Lists the host names that requests may name: this machine's, if only it can connect; `None` for any name."""
    return list(dict.fromkeys((host.lower(), "localhost", "127.0.0.1", "::1"))) if _is_loopback(host) else None


def _is_loopback(host):
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
