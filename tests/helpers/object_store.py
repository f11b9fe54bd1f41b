"""An object store on this machine, and a proxy in front of it that fails as networks and stores do."""

import os
import socket
import socketserver
import threading
import time

import pytest


class Proxy(socketserver.ThreadingTCPServer):
    """Passes requests on to a server, and lets chosen requests fail.

    Each request has a connection of its own.

    Args:
        port: int. Port of the server.

    Attributes:
        failures: list of (method, part of the target, kind), each for one request: "503", "cut" in the middle of the
            answer, "cut request" in the middle of the request, or "slow", half a second.
        requests: list of (method, target, head), of all requests.
    """

    allow_reuse_address, daemon_threads = True, True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.failures, self.requests = port, [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def failure(self, method, target):
        for each in self.failures:
            if each[0] == method and each[1] in target:
                self.failures.remove(each)
                return each[2]
        return None


class _Handler(socketserver.BaseRequestHandler):
    def handle(self):
        data = b""
        while b"\r\n\r\n" not in data:
            block = self.request.recv(65536)
            if not block:
                return
            data += block
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        method, target, _ = lines[0].decode().split(" ")
        self.server.requests.append((method, target, head))
        length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
        if b"100-continue" in head.lower():
            self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            lines = [line for line in lines if not line.lower().startswith(b"expect:")]
        failure = self.server.failure(method, target)
        if failure == "cut request":
            return
        while len(body) < length:
            body += self.request.recv(65536)
        if failure == "503":
            self.request.sendall(b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        if failure == "slow":
            time.sleep(0.5)
        with socket.create_connection(("127.0.0.1", self.server.port)) as server:
            server.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body)
            answer = b""
            while block := server.recv(65536):
                answer += block
        self.request.sendall(answer[: len(answer) * 2 // 3] if failure == "cut" else answer)


@pytest.fixture(scope="session")
def moto_port():
    """The port of moto's server, an object store in memory."""
    pytest.importorskip("s3fs", reason="the extra remote is not installed")
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    started = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    started.start()
    yield started.get_host_and_port()[1]
    started.stop()


@pytest.fixture
def store(moto_port, monkeypatch):
    """A Proxy in front of an object store with an empty bucket `bucket`; variables that users set lead s3:// to it."""
    import s3fs

    proxy = Proxy(moto_port)
    settings = {
        "AWS_ENDPOINT_URL": proxy.url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "2",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(os.environ, "NO_PROXY", "127.0.0.1")
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem(use_listings_cache=False)
    if files.exists("bucket"):
        files.rm("bucket", recursive=True)
    files.mkdir("bucket")
    proxy.requests.clear()
    proxy.files = files
    yield proxy
    proxy.shutdown()
    proxy.server_close()
    s3fs.S3FileSystem.clear_instance_cache()
