"""The REST server of the peer of TensorFlow Serving."""

import http.server
import json
import re
import socketserver
import urllib.parse

import numpy as np
from google.protobuf import json_format
from serving_peer_json import answer, fill_predict_request, fill_regression_request, number, parse
from serving_peer_status import Refusal, http_status
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2, regression_pb2

_VERSION = "(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"/v1/models/(?P<name>[^/:]+){_VERSION}:(?P<action>classify|regress|predict)", re.IGNORECASE)
_GET = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?:/(?P<action>metadata))?", re.IGNORECASE)


class RestServer(http.server.ThreadingHTTPServer):
    """An HTTP server that gives the answers of a `serving_peer.Service`.

    Args:
        port: int. 0 for any free port.
        service: object with the methods `predict`, `regress`, `status`, `metadata` and `inputs`.
    """

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, port, service):
        self.service = service
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request, client_address):
        """Prints nothing about clients that have disconnected."""

    server_bind = socketserver.TCPServer.server_bind  # that of HTTPServer looks up the host's name, which may take long


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def do_GET(self):
        self._answer(_GET)

    def do_POST(self):
        self._answer(_POST)

    def log_message(self, *_):
        pass

    def _answer(self, pattern):
        if not (self.headers.get("Content-Length", "0").isdecimal() and "Transfer-Encoding" not in self.headers):
            self.close_connection = True
            return self.send_error(411)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = urllib.parse.urlsplit(self.path).path
        if not path.lower().startswith("/v1/"):
            return self.send_error(404)
        try:
            match = pattern.fullmatch(path)
            if not match:
                raise Refusal("INVALID_ARGUMENT", f"Malformed request: {self.command} {path}")
            status, document = 200, self._document(match, body)
        except Exception as error:
            status, message = http_status(error)
            document = {"error": message}
        text = json.dumps(document, indent=4, ensure_ascii=False).encode(errors="surrogateescape")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        return self.wfile.write(text)

    def _document(self, match, body):
        service, action = self.server.service, (match["action"] or "status").lower()
        if action == "status":
            request = get_model_status_pb2.GetModelStatusRequest()
        elif action == "metadata":
            request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        elif action == "predict":
            request = predict_pb2.PredictRequest()
        elif action == "regress":
            request = regression_pb2.RegressionRequest()
        else:
            raise Refusal("UNIMPLEMENTED", "Classify is not implemented")
        if not match["name"]:
            raise Refusal("INVALID_ARGUMENT", "Missing model name in request.")
        request.model_spec.name = urllib.parse.unquote(match["name"])
        if match["version"]:
            if int(match["version"]) >= 2**63:
                raise Refusal("INVALID_ARGUMENT", f"Failed to convert version: {match['version']} to numeric.")
            request.model_spec.version.value = int(match["version"])
        if match["label"]:
            request.model_spec.version_label = urllib.parse.unquote(match["label"])
        if action == "status":
            return _plain(service.status(request))
        if action == "metadata":
            return _metadata(service.metadata(request))
        document = parse(body)
        request.model_spec.signature_name = document.get("signature_name", "")
        if action == "regress":
            fill_regression_request(document, request)
            found = service.regress(request).result.regressions
            return {"results": [number(np.float32(regression.value)) for regression in found]}
        rows = fill_predict_request(document, service.inputs(request.model_spec), request)
        return answer(service.predict(request).outputs, rows)


def _plain(message):
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _metadata(response):
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return {"model_spec": _plain(response.model_spec), "metadata": {"signature_def": _plain(signatures)}}
