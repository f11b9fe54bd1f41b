"""Connections to clients, of which none is waited for too long."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_encdec.web.app import refusal

# Seconds for a request to arrive whole, headers and body; a body has some kilobytes at most.
REQUEST_SECONDS = 10.0
# Connections whose request has not arrived whole, at most. Above it those that have waited longest are closed, after a
# moment in which their requests may still be read.
MOST_UNHEARD, MOMENT = 100, 0.1
# All connections, at most; more are refused. It leaves descriptors for the files of the process, of 1,024 as a rule.
MOST_CONNECTIONS = 500


class PromptProtocol(H11Protocol):
    """HTTP with clients that send their requests, and take the answers, without delay; others are closed.

    A client that is silent, or sends its headers or its body a few bytes at a time, keeps a connection for
    `REQUEST_SECONDS`, and less where many do.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See asyncio."""
        super().connection_made(transport)
        self._keep_deadline()
        if len(self.connections) > MOST_UNHEARD:
            self.loop.call_later(MOMENT, self._make_room)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._cancel_timers()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Reads what has come."""
        super().handle_events()
        self._keep_deadline()

    def on_response_complete(self) -> None:
        """Waits for the next request."""
        super().on_response_complete()
        self._keep_deadline()

    def pause_writing(self) -> None:
        """See asyncio."""
        super().pause_writing()
        self._taking = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """See asyncio."""
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()

    @property
    def unheard_since(self) -> float | None:
        """When waiting for the rest of a request began, by the clock of the loop; `None` where it has come whole."""
        return None if self._deadline is None else self._deadline.when() - REQUEST_SECONDS

    def close_unheard(self) -> None:
        """Closes the connection if its request has not come whole, and says so to a client that began with one."""
        if self.unheard_since is None or self.transport.is_closing():
            return
        began = self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]
        if began and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            sentence = f"Found a request that did not come whole, expected it within {REQUEST_SECONDS:g} s."
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
        self.loop.call_later(MOMENT, self.transport.abort)  # where the client takes no answer, either

    def _make_room(self):
        unheard = [one for one in self.connections if one.unheard_since is not None]
        for one in sorted(unheard, key=lambda one: one.unheard_since)[:-MOST_UNHEARD]:
            one.close_unheard()

    def _keep_deadline(self):
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()
        if waits and self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.close_unheard)
        elif not waits and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_timers(self):
        for timer in (self._deadline, self._taking):
            if timer is not None:
                timer.cancel()
        self._deadline = self._taking = None
