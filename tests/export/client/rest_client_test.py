"""The REST client when something other than TensorFlow Serving answers, such as a proxy or a server of another kind."""

import contextlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests

from keras_encdec.configuration import ConfigurationError
from keras_encdec.export.client.connection import connect
from keras_encdec.export.client.model_server import ModelName, ServerError
from keras_encdec.export.client.served_scorer import ServedScorer

STRINGS = {"inputs": {"source": {"dtype": "DT_STRING"}, "target": {"dtype": "DT_STRING"}}}
METADATA = {
    "model_spec": {"version": "3"},
    "metadata": {"signature_def": {"signature_def": {"score": STRINGS, "score_tokens": STRINGS}}},
}
PAIRS = [(["a"], ["b"]), (["c"], ["d"])]


class Answers(HTTPServer):
    """Answers each GET and each POST with the same status and text."""

    def __init__(self):
        super().__init__(("localhost", 0), Handler)
        self.get, self.post, self.paths = (200, json.dumps(METADATA)), (200, ""), []
        self.address = f"http://localhost:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._answer(*self.server.get)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(*self.server.post)

    def _answer(self, status, text):
        self.server.paths.append(self.path)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())


@pytest.fixture(scope="module")
def server():
    with Answers() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def client(server):
    return contextlib.closing(connect(server.address, ModelName("encdec"), 10))


OTHER = "an answer that is not TensorFlow Serving's"


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "null",
        "<html>",
        "[" * 100_000,
        "9" * 5000,
        '{"model_spec": {}}',
        '{"model_spec": {"version": "one"}}',
        '{"model_spec": {"version": 1}, "metadata": []}',
        json.dumps({**METADATA, "metadata": {"signature_def": {"signature_def": None}}}),
        json.dumps({**METADATA, "metadata": {"signature_def": {"signature_def": {"score": {"inputs": ["source"]}}}}}),
    ],
)
def test_metadata_of_another_form_are_an_error(server, content):
    server.get = 200, content
    with client(server) as rest, pytest.raises(ServerError, match=f"UNKNOWN: {OTHER}"):
        rest.metadata()


@pytest.mark.parametrize(
    "content",
    ["[]", '{"model_version_status": null}', '{"model_version_status": [{}]}', '{"model_version_status": "a"}'],
)
def test_a_status_of_another_form_is_an_error(server, content):
    server.get = 200, content
    with client(server) as rest, pytest.raises(ServerError, match=f"UNKNOWN: {OTHER}"):
        rest.status()


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([-1, -1], OTHER),
        ({"log_prob": ["x", "y"]}, OTHER),
        ({"log_prob": [None, -1.0]}, OTHER),
        ({"log_prob": [[-1.0], -1.0]}, OTHER),
        ({"log_prob": [[-1.0], [-1.0]]}, r"log_prob of shape \(2, 1\) for 2 pairs"),
        ({"log_prob": -1.0}, r"log_prob of shape \(\) for 2 pairs"),
        ({"log_prob": [-1.0]}, "1 value of log_prob for 2 pairs"),
        ({"token_log_probs": [[-1.0], [-1.0, 0.0]], "token_count": [1, 2]}, OTHER),
        ({"token_log_probs": [[-1.0, -1.0]] * 2, "token_count": [1, 3]}, "a token_count of 3 for 2 token_log_probs"),
        ({"token_log_probs": [[-1.0, -1.0]] * 2, "token_count": [0, 2]}, "a token_count of 0 for 2 token_log_probs"),
    ],
)
def test_scores_of_another_form_are_an_error(server, outputs, message):
    server.get, server.post = (200, json.dumps(METADATA)), (200, json.dumps({"outputs": outputs}))
    with client(server) as rest, pytest.raises(ServerError, match=message):
        ServedScorer(rest, 0).score_pairs(PAIRS, token_log_probs="token_count" in outputs)


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (502, "<html>", "UNAVAILABLE: HTTP 502 Bad Gateway, without an error message of TensorFlow Serving"),
        (429, "[]", "UNAVAILABLE: HTTP 429 Too Many Requests"),
        (429, '{"error": "OOM when allocating tensor"}', "RESOURCE_EXHAUSTED: OOM when allocating tensor"),
        (400, '{"error": null}', "INVALID_ARGUMENT: HTTP 400 Bad Request, without an error message"),
        (400, '{"error": {"code": 1}}', "INVALID_ARGUMENT: HTTP 400 Bad Request, without an error message"),
        (401, '{"message": "no"}', "UNKNOWN: HTTP 401 Unauthorized, without an error message"),
        (413, "<html>", "INVALID_ARGUMENT: HTTP 413 Request Entity Too Large"),
        (504, "<html>", "DEADLINE_EXCEEDED: HTTP 504 Gateway Timeout"),
    ],
)
def test_errors_of_a_proxy_have_the_codes_of_grpc(server, status, text, message):
    server.get = status, text
    with client(server) as rest, pytest.raises(ServerError, match=message):
        rest.metadata()


def test_limits_of_a_proxy_are_reported_as_such(server):
    server.get = 504, "<html>"
    with client(server) as rest, pytest.raises(ServerError) as failure:
        rest.metadata()
    found = "table: found no answer in time from the server behind the proxy at http.*Gateway Timeout.*"
    report = str(failure.value.report(rest, "table"))
    assert re.match(f"{found}; raise the proxy's time limit or give a smaller --batch_size", report)
    server.get = 413, "<html>"
    with client(server) as rest, pytest.raises(ServerError) as failure:
        rest.metadata()
    report = str(failure.value.report(rest, "table"))
    assert re.match(r"table: found a request that the server refuses \(HTTP 413.*; give a smaller --batch_size", report)
    assert "line 2: found a pair that the server refuses (HTTP 413" in str(failure.value.report(rest, "table", 2))


def test_a_time_limit_of_the_library_is_the_deadline_of_the_client(server, monkeypatch):
    def time_out(*arguments, **options):
        raise requests.ReadTimeout("HTTPConnectionPool(host='localhost', port=1): Read timed out.")

    with client(server) as rest:
        monkeypatch.setattr(requests.Session, "request", time_out)
        with pytest.raises(ServerError) as failure:
            rest.metadata()
        report = str(failure.value.report(rest, "table"))
        assert re.match(r"table: found no answer from the server at \S+ within \d+ s; give a longer --deadline", report)


def test_the_server_may_be_below_a_path_of_a_proxy(server):
    server.get = 200, json.dumps(METADATA)
    with contextlib.closing(connect(f"{server.address}/a/b/", ModelName("encdec"), 10)) as rest:
        assert rest.metadata()[0] == 3
    assert server.paths[-1] == "/a/b/v1/models/encdec/metadata"
    for address in ("http://localhost:1/v1/models/encdec", "http://localhost:1?a", "localhost:1/a", "http://"):
        with pytest.raises(ConfigurationError, match="expected host:port, or http://host:port for REST"):
            connect(address, ModelName("encdec"))


def test_a_port_without_http_or_without_tls_is_not_tried_again(server):
    secure = server.address.replace("http:", "https:")
    with contextlib.closing(connect(secure, ModelName("encdec"), 10)) as rest:
        with pytest.raises(ServerError, match=r"UNKNOWN: TLS failed \(.*wrong version number"):
            rest.metadata()
    with socket.create_server(("localhost", 0)) as listening:
        address = f"http://localhost:{listening.getsockname()[1]}"

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"\0\0\x18\x04\0\0\0\0\0\0\x04\0?\0\1\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with contextlib.closing(connect(address, ModelName("encdec"), 10)) as rest:
            with pytest.raises(ServerError, match="UNKNOWN: its answer is not HTTP; a port for gRPC has no http://"):
                rest.metadata()
        thread.join()
