"""Runs the web server, with time limits for slow clients."""

import asyncio
import concurrent.futures
import contextlib
import http
import ipaddress
import logging
import signal
import threading
import types
from collections.abc import Callable, Iterator

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_encdec.formats import FilePath
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.workers import handle_stop_signals, restore_handlers
from keras_encdec.web.app import create_app, refusal
from keras_encdec.web.computations import Computations
from keras_encdec.web.endpoints import ServeOptions
from keras_encdec.web.explorer import Explorer
from keras_encdec.web.neighbourhood import known_phrases


def serve(
    model_dir: FilePath | ModelDirectory,
    options: ServeOptions | None = None,
    *,
    phrase_table: FilePath | None = None,
    input: FilePath | None = None,
    say: Callable[[str], None] = lambda line: None,
    **values: object,
) -> None:
    """Serves a web page for trying out a model, until it is interrupted.

    The server starts when the functions for short phrases are compiled. It compiles those for longer phrases while no
    request is waiting. In a notebook, which has an event loop of its own, call `serve` in a thread:

        threading.Thread(target=serve, args=["model"], kwargs={"say": print}, daemon=True).start()

    Args:
        model_dir: directory of a model with a source, or a loaded ModelDirectory.
        options: ServeOptions. Defaults to `None`: the defaults of the command.
        phrase_table, input: files with the phrases to search for neighbours, see `known_phrases`. Default to the
            model's training data.
        say: function that is called with a line for each step and for the address of the page. Defaults to no output.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for a phrase table together with a text.
        InputError: if the model or a file cannot be used, or the port is taken.
        RuntimeError: in a thread with a running event loop.
        KeyboardInterrupt: if the user interrupts it.

    Example:

        serve("model", port=0, say=print)
    """
    _check_no_event_loop()  # before the model is compiled
    ServeOptions.check_files(phrase_table, input)
    options = ServeOptions.combined(options, values)
    host = options.host
    with options.listen() as listening:
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
        server = server_of(app)
        try:
            asyncio.run(server.serve([listening]))
        finally:
            computations.close()
        if server.stop_signal is not None:
            signal.raise_signal(server.stop_signal)  # again, for the handler that was set before the server ran


def _check_no_event_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "found a running event loop, as in a notebook, expected none; call serve in a thread: "
        "threading.Thread(target=serve, ...).start()"
    )


def _prepare(preparations: Iterator[Callable[[], object]], computations: Computations) -> None:
    """Runs the preparations one by one, so that requests can run between them."""
    with contextlib.suppress(RuntimeError, concurrent.futures.CancelledError):  # the server has stopped meanwhile
        for step in preparations:
            computations.submit(step).result()


def _names(host: str) -> list[str] | None:
    """Lists the allowed host names: this machine's, if only this machine can connect; otherwise `None`, for any."""
    return list(dict.fromkeys((host.lower(), "localhost", "127.0.0.1", "::1"))) if _is_loopback(host) else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def server_of(app: ASGIApp) -> "_Server":
    """Makes a server for an application; await its `serve([socket])`. A stop signal ends it, see `_Server`."""
    configuration = uvicorn.Config(
        app,
        http=TimeLimitedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,  # uvicorn's would close all log handlers, and absl's handler would then close standard error
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_server_error)
    return _Server(configuration)


def _is_server_error(record: logging.LogRecord) -> bool:
    """Whether a message is about an error of the server, and not about requests that a stop signal has ended."""
    return not record.getMessage().startswith("Cancel ")


class _Server(uvicorn.Server):
    """A server that ends after a stop signal, when it has answered the requests that are running.

    After `STOP_SECONDS`, or at a second signal, those that are left get status 503. In a thread other than the main
    one, it handles no signals.
    """

    stop_signal: int | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        former = handle_stop_signals(self._stop)
        try:
            yield
        finally:
            restore_handlers(former)

    def _stop(self, number: int, frame: types.FrameType | None) -> None:
        self.force_exit, self.should_exit, self.stop_signal = self.should_exit, True, number


# Seconds within which requests that are running when a stop signal comes must be answered.
STOP_SECONDS = 5
# Seconds within which the headers and the body of a request must arrive. Bodies have a few kilobytes.
REQUEST_SECONDS = 10.0
# Maximum number of connections with incomplete requests. If there are more, the server waits for a moment, in which it
# may still read requests, and then closes the connections that have been open longest.
MAX_INCOMPLETE, MOMENT = 100, 0.1
# Maximum number of connections. A process can usually open 1,024 file descriptors, including its files.
MAX_CONNECTIONS = 500


class TimeLimitedProtocol(H11Protocol):
    """The HTTP protocol, with time limits: slow clients do not keep other clients out.

    A client that is silent, or that sends its request or reads its response slowly, keeps its connection for at most
    `REQUEST_SECONDS`, and for a shorter time when many clients are slow.
    """

    _deadline: asyncio.TimerHandle | None = None
    _reading_response: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # H11Protocol narrows it, too
        super().connection_made(transport)
        self._keep_deadline()
        if len(self.connections) > MAX_INCOMPLETE:
            self.loop.call_later(MOMENT, self._make_room)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._keep_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._keep_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading_response = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading_response is not None:
            self._reading_response.cancel()

    @property
    def waiting_since(self) -> float | None:
        """The time of the loop's clock when the server began to wait for this request; `None` if it is complete."""
        return None if self._deadline is None else self._deadline.when() - REQUEST_SECONDS

    def close_incomplete(self) -> None:
        """Closes the connection if its request is incomplete; a client that has sent a part of it gets status 408."""
        if self.waiting_since is None or self.transport.is_closing():
            return
        began = self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]
        if began and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            sentence = f"Found an incomplete request, expected the whole request within {REQUEST_SECONDS:g} s."
            self._refuse(408, sentence)
        self._cancel_timers()
        self.transport.close()
        self.loop.call_later(MOMENT, self.transport.abort)  # in case the client does not read the response

    def send_400_response(self, msg: str) -> None:
        """See H11Protocol, which would answer in plain text."""
        self._refuse(400, "Found a malformed request, expected HTTP/1.1 with the header Host.")
        self.transport.close()

    def _refuse(self, status: int, sentence: str) -> None:
        response = refusal(status, sentence)
        headers = [*response.raw_headers, (b"connection", b"close")]
        for event in (
            h11.Response(status_code=status, headers=headers, reason=http.HTTPStatus(status).phrase.encode()),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event))

    def _make_room(self) -> None:
        waiting = [
            (since, connection)
            for connection in self.connections
            if isinstance(connection, TimeLimitedProtocol) and (since := connection.waiting_since) is not None
        ]
        for _, connection in sorted(waiting, key=lambda each: each[0])[:-MAX_INCOMPLETE]:
            connection.close_incomplete()

    def _keep_deadline(self) -> None:
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.close_incomplete)
        elif not waits and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_timers(self) -> None:
        for timer in (self._deadline, self._reading_response):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading_response = None
