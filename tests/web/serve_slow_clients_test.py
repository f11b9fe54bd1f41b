"""Clients that send their requests slowly, or never, at the same time as others."""

import asyncio
import concurrent.futures
import contextlib
import importlib
import json
import logging
import socket
import threading
import time
import types

import httpx2
import pytest
from starlette.responses import StreamingResponse

from keras_encdec.web import RequestLimits, create_app

serve = importlib.import_module("keras_encdec.web.serve")  # the package has a function of the same name

HEADERS = b"POST /api/score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n"
# What clients send before they send nothing more, and the status with which they are closed.
SLOW = {"silent": (b"", b""), "headers": (HEADERS, b" 408 "), "body": (HEADERS + b'\r\n{"source', b" 408 ")}


@contextlib.contextmanager
def served(app):
    """The port at which an application is served."""
    listening, server = socket.create_server(("127.0.0.1", 0)), serve.server_of(app)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(timeout=30)
    assert not thread.is_alive()


@pytest.fixture
def port():
    """The port of an application that needs no model."""
    score = {"score": lambda source, target: {"source": source}, "limits": RequestLimits()}
    with served(create_app(types.SimpleNamespace(**score))) as port:
        yield port


def asked(port):
    with httpx2.Client(trust_env=False, timeout=20) as client:
        return client.post(f"http://127.0.0.1:{port}/api/score", json={"source": "a", "target": "b"}).status_code


@contextlib.contextmanager
def clients(port, number, begun):
    with contextlib.ExitStack() as opened:
        made = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(number)]
        for connection in made:
            connection.sendall(begun)
        yield made


def heard(client):
    """All that a client receives until its connection is closed."""
    with contextlib.suppress(ConnectionResetError):
        return b"".join(iter(lambda: client.recv(1 << 16), b""))
    return b""


@pytest.mark.parametrize("kind", SLOW)
def test_slow_clients_are_closed(port, monkeypatch, kind):
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.5)
    begun, status = SLOW[kind]
    before = time.monotonic()
    with clients(port, 3, begun) as slow:
        for client in slow:
            answer = heard(client)
            assert status in answer and bool(answer) == bool(status)
            if answer:
                assert "an incomplete request" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
        assert 0.4 < time.monotonic() - before < 10
    assert asked(port) == 200


@pytest.mark.parametrize("request_", [b"GET / HTTP/1.1\r\n\r\n", b"hello\r\n\r\n"])
def test_a_malformed_request_is_refused_as_others_are(port, request_):
    with clients(port, 1, request_) as [client]:
        head, _, body = heard(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request") and b"content-security-policy" in head
    assert json.loads(body) == {"error": "Found a malformed request, expected HTTP/1.1 with the header Host."}
    assert asked(port) == 200


def test_sending_a_few_bytes_at_a_time_does_not_extend_the_time_limit(port, monkeypatch):
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.5)
    with clients(port, 1, HEADERS) as [slow], pytest.raises(OSError):
        for _ in range(200):
            slow.sendall(b"X: y\r\n")
            time.sleep(0.05)


@pytest.mark.parametrize("kind", SLOW)
def test_other_clients_are_served_meanwhile(port, monkeypatch, kind):
    monkeypatch.setattr(serve, "MAX_INCOMPLETE", 5)
    with clients(port, 40, SLOW[kind][0]) as slow:
        for _ in range(3):
            assert asked(port) == 200
        time.sleep(5 * serve.MOMENT)
        closed = 0
        for client in slow:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                heard(client)
                closed += 1
        assert closed >= 35  # those that had waited longest; none has waited for as long as is allowed


def test_many_slow_clients_do_not_keep_others_out(port):
    with clients(port, 300, SLOW["headers"][0]):
        assert [asked(port) for _ in range(3)] == [200] * 3


def test_a_client_that_disconnects_is_not_logged(port, caplog):
    with caplog.at_level(logging.WARNING), clients(port, 5, SLOW["body"][0]):
        time.sleep(0.2)
    assert asked(port) == 200
    assert caplog.messages == []


def test_requests_of_clients_that_have_gone_away_are_not_computed(caplog):
    begun, go_on, computed = threading.Event(), threading.Event(), []

    def score(source, target):
        begun.set()
        assert go_on.wait(20)
        computed.append(source)
        return {}

    request = HEADERS + b"\r\n" + json.dumps({"source": "gone", "target": "b"}).encode().ljust(500)
    app = create_app(types.SimpleNamespace(score=score, limits=RequestLimits()))
    with served(app) as port, concurrent.futures.ThreadPoolExecutor() as executor:
        first = executor.submit(asked, port)
        assert begun.wait(20)
        with clients(port, 3, request):
            time.sleep(0.2)  # until the requests are waiting
        time.sleep(0.2)  # until the server sees that their clients are gone
        go_on.set()
        assert first.result() == asked(port) == 200
    assert computed == ["a", "a"] and caplog.messages == []


def test_a_client_that_does_not_read_its_response_is_disconnected(monkeypatch):
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.5)
    parts = [bytes(1_000_000)] * 50  # more than all buffers on the way take

    async def large(scope, receive, send):
        await StreamingResponse(iter(parts))(scope, receive, send)

    with (
        served(large) as port,
        clients(port, 1, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") as [client],
    ):
        time.sleep(1.5)
        assert len(heard(client)) < 50_000_000
