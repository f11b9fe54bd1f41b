"""Answers of the server: JSON, and the headers that every answer has."""

import json
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class JSONAnswer(Response):
    """An answer in JSON; bytes of the vocabulary that are no UTF-8 are shown as U+FFFD."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode("utf-8")


def refusal(status: int, sentence: str, **headers: str) -> JSONAnswer:
    """An answer that says in one sentence why a request is not answered.

    Args:
        status: int, of HTTP.
        sentence: str.
        **headers: further ones, with underscores for hyphens.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONAnswer({"error": sentence}, status, {**HEADERS, **named})


class AnswerHeaders:
    """Middleware that gives every answer the headers that keep a page to itself.

    Args:
        app: the ASGI application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)
