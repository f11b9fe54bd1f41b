"""Closes the connections of slow clients."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_encdec.web.app import refusal

# Seconds within which the headers and the body of a request must arrive. Bodies have a few kilobytes.
REQUEST_SECONDS = 10.0
# Largest number of connections with incomplete requests. If there are more, the server waits for a moment, in which it
# may still read requests, and then closes the connections that have been open longest.
MOST_WAITING, MOMENT = 100, 0.1
# Largest number of connections. A process can usually open 1,024 file descriptors, including its files.
MOST_CONNECTIONS = 500


class PromptProtocol(H11Protocol):
    """The HTTP protocol, with time limits: slow clients do not keep other clients out.

    A client that is silent, or that sends its request or reads its answer slowly, keeps its connection for at most
    `REQUEST_SECONDS`, and for a shorter time when many clients are slow.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._reading_answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._keep_deadline()
        if len(self.connections) > MOST_WAITING:
            self.loop.call_later(MOMENT, self._make_room)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._cancel_timers()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handles the data that has arrived."""
        super().handle_events()
        self._keep_deadline()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        self._keep_deadline()

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._reading_answer = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """See asyncio."""
        super().resume_writing()
        if self._reading_answer is not None:
            self._reading_answer.cancel()

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
            answer = refusal(408, sentence)
            headers = [*answer.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=answer.status_code, headers=headers, reason=b"Request Timeout"),
                h11.Data(data=bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
        self._cancel_timers()
        self.transport.close()
        self.loop.call_later(MOMENT, self.transport.abort)  # in case the client does not read the answer

    def _make_room(self):
        waiting = [connection for connection in self.connections if connection.waiting_since is not None]
        for connection in sorted(waiting, key=lambda connection: connection.waiting_since)[:-MOST_WAITING]:
            connection.close_incomplete()

    def _keep_deadline(self):
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.close_incomplete)
        elif not waits and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_timers(self):
        for timer in (self._deadline, self._reading_answer):
            if timer is not None:
                timer.cancel()
        self._deadline = self._reading_answer = None
