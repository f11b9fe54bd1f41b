"""The web application: the page and its API."""

import asyncio
import functools
import json
import math
import pathlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import utf8
from keras_encdec.runtime.metrics import measured_request
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.settings_files import Json
from keras_encdec.web.computations import BusyError, Computations, ReplacedError, RequestRate
from keras_encdec.web.endpoints import ENDPOINTS, PAGE, Endpoint
from keras_encdec.web.explorer import Explorer
from keras_encdec.web.openapi import openapi

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


class JSONResponse(Response):
    """A response in JSON. Bytes of the vocabulary that are not UTF-8 become U+FFFD."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return utf8(json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def refusal(status: int, sentence: str, **headers: str) -> JSONResponse:
    """Makes the response that refuses a request. The names of headers have underscores in place of hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return JSONResponse({"error": sentence}, status, {**HEADERS, **named})


class ResponseHeaders:
    """Middleware that adds `HEADERS` to every response, so that browsers isolate the page from other sites."""

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


# Statuses that do not count as failures: a newer request of the same page has replaced this one, or the client has
# closed the connection, as the page does when it replaces a request.
REPLACED, GONE = NO_FAILURES = 409, 499

PAGE_FILES = pathlib.Path(__file__).parent / "page"


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def create_app(
    explorer: Explorer, hosts: Sequence[str] | None = None, computations: Computations | None = None
) -> Starlette:
    """Makes an ASGI application of the page and its API, to be served or to be mounted in another application.

    Args:
        explorer: Explorer of the model.
        hosts: list of str. The allowed host names. Requests for other names are refused, because another site could
            let its own name point to this server (DNS rebinding). Defaults to `None`: any name.
        computations: Computations, the queue that runs the model. Defaults to a new one.

    Raises:
        ValueError: for an object that is not an Explorer, such as a model directory.

    Example:

        uvicorn.run(create_app(Explorer(ModelDirectory.load("model"))), port=8080)
    """
    if not hasattr(explorer, "limits"):
        raise ValueError(f"found {explorer!r}, expected an Explorer of the model: Explorer(ModelDirectory.load(path))")
    computations, rate = computations or Computations(), RequestRate(explorer.limits.requests_per_minute)

    def checked(handler: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            host = _host(request.headers.get("host", ""))
            if hosts is not None and host not in hosts:
                return refusal(400, f"Found a request for the host {host!r}, expected one for {' or '.join(hosts)}.")
            address = request.client.host if request.client else ""
            if wait := rate.wait(address):
                limit = counted(explorer.limits.requests_per_minute, "requests")
                seconds = math.ceil(wait)
                sentence = f"Found more than {limit} within a minute; ask again in {seconds} s."
                return refusal(429, sentence, Retry_After=f"{seconds}")
            with measured_request() as outcome:
                try:
                    response = await handler(request)
                except asyncio.CancelledError:  # a signal ends the server
                    response = refusal(503, "The server is stopping.")
                outcome.failed = response.status_code >= 400 and response.status_code not in NO_FAILURES
            return response

        return handle

    async def model(request: Request) -> Response:
        return JSONResponse(explorer.model())

    async def description(request: Request) -> Response:
        return JSONResponse(openapi(explorer.limits, request.scope.get("root_path", "")))

    async def page(request: Request) -> Response:
        return FileResponse(PAGE_FILES / "index.html")

    def route(endpoint: Endpoint) -> Route:
        handler = functools.partial(_respond, explorer, computations, endpoint)
        return Route(endpoint.path, checked(handler), methods=["POST"])

    app = Starlette(
        routes=[
            Route("/", page),
            Route("/openapi.json", checked(description)),
            Route("/api/model", checked(model)),
            *map(route, ENDPOINTS),
            Mount("/page", StaticFiles(directory=PAGE_FILES)),
        ],
        middleware=[Middleware(ResponseHeaders)],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )
    app.router.redirect_slashes = False  # a redirect would have no JSON
    return app


async def _respond(explorer: Explorer, computations: Computations, endpoint: Endpoint, request: Request) -> Response:
    if endpoint.needs and not getattr(explorer, endpoint.needs):
        return refusal(404, f"Found a model without {endpoint.lacking}, which this request needs.")
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        return refusal(415, f"Found the content type {content_type!r}, expected application/json.")
    limits = explorer.limits
    try:
        body = await _read(request, limits.max_bytes)
    except ClientDisconnect:  # not a failure of the server: an unhandled exception would be logged
        return refusal(400, "The client closed the connection before its request was complete.")
    if body is None:
        return refusal(413, f"Found a body that is too large, expected {limits.max_bytes:,} bytes at most.")
    try:
        posted = _parsed(body)
        arguments = endpoint.arguments(posted, limits)
        key = (posted[PAGE], endpoint.name) if PAGE in posted else None
        computing = computations.run(functools.partial(getattr(explorer, endpoint.name), **arguments), key)
        result = await _while_connected(request, computing)
    except InputError as error:
        message = str(error)
        return refusal(422, message[:1].upper() + message[1:])
    except ReplacedError:
        return refusal(REPLACED, "A newer request of the same page replaced this one.")
    except ClientDisconnect:
        return refusal(GONE, "The client closed the connection before its response.")
    except BusyError:
        return refusal(429, "Found too many requests waiting; ask again in 1 s.", Retry_After="1")
    return JSONResponse(result)


async def _read(request: Request, max_bytes: int) -> bytes | None:
    """Reads the body of a request; returns `None` if it has more than `max_bytes`, without reading all of it."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 20 or int(declared) > max_bytes):  # Python parses up to 4,300 digits
        return None
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > max_bytes:
            return None
    return body


async def _while_connected(request: Request, computing: Coroutine[None, None, Json]) -> Json:
    """Waits for a result. If the client goes away first, the computation is cancelled unless it has begun."""
    result, gone = asyncio.ensure_future(computing), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((result, gone), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise ClientDisconnect
        return result.result()
    finally:
        result.cancel()
        gone.cancel()
        await asyncio.gather(result, gone, return_exceptions=True)


def _parsed(body: bytes) -> Json:
    """Parses JSON; raises InputError, also for deeper lists or longer numbers than Python parses."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InputError("found a body that is not JSON", "expected a JSON object") from error


async def _refused(request: Request, error: Exception) -> Response:
    """Responds to a request that Starlette refuses: an unknown path or method."""
    assert isinstance(error, HTTPException)  # Starlette's type for handlers allows any exception
    headers = {name.replace("-", "_"): value for name, value in (error.headers or {}).items()}
    path, root = request.url.path, request.scope.get("root_path", "").removesuffix("/page")  # of the page's own files
    expected, described = headers.get("Allow", "another"), f"the API is described at {root}/openapi.json."
    sentences = {
        404: f"Found no page at {path}; {described}",
        405: f"Found the method {request.method} for {path}, expected {expected}; {described}",
    }
    return refusal(error.status_code, sentences.get(error.status_code, f"{error.detail}."), **headers)


async def _failed(request: Request, error: Exception) -> Response:
    return refusal(500, "The server failed; see its log.")


def _host(header: str) -> str:
    """Extracts the host name from a header such as "localhost:8080" or "[::1]:8080"."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdecimal() and not header.endswith("]") else header
    return name.strip("[]").lower()
