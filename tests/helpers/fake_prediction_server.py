"""A server that speaks TensorFlow Serving's two protocols and computes scores from the strings alone."""

import base64
import contextlib
import json
import re
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2
from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceServicer, add_ModelServiceServicer_to_server
from tensorflow_serving.apis.prediction_service_pb2_grpc import (
    PredictionServiceServicer,
    add_PredictionServiceServicer_to_server,
)

from keras_encdec.formats import model_words

HTTP_STATUS = {"INVALID_ARGUMENT": 400, "NOT_FOUND": 404, "UNAVAILABLE": 503, "INTERNAL": 500}
PAIR = {"source": ("DT_STRING", [-1]), "target": ("DT_STRING", [-1])}
COUNTS = {"token_count": ("DT_INT32", [-1]), "unknown_count": ("DT_INT32", [-1])}
SCORES = {"log_prob": ("DT_FLOAT", [-1]), **COUNTS}
SIGNATURES = {
    "score": (PAIR, SCORES),
    "score_tokens": (PAIR, {**SCORES, "token_log_probs": ("DT_FLOAT", [-1, -1])}),
    "encode": ({"source": ("DT_STRING", [-1])}, {"summary": ("DT_FLOAT", [-1, 8])}),
}
TOKENIZE = {"tokenize": ({"text": ("DT_STRING", [-1])}, {"tokens": ("DT_STRING", [-1])})}


class Failure(Exception):
    """What the fake answers instead of scores: a status code's name and a message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


def token_scores(source, target):
    """ln p of each token and of the end of sequence, float32: other words or another order give others."""
    tokens = [" ".join(source) + "|" + " ".join(target[:i] + [word]) for i, word in enumerate([*target, "</s>"])]
    return np.array([-(zlib.crc32(token.encode()) % 5_000_000) / 1e6 for token in tokens], np.float32)


def unknown_count(target):
    """Words that begin with u are outside the shortlist."""
    return sum(word.startswith("u") for word in target)


class FakeModel:
    """The model behind both protocols, and how it should answer.

    Attributes:
        requests: list of `(signature, sources, targets, asked)`, bytes as they were sent and the asked
            version or label.
        most_at_once: int. Largest number of requests that were processed at the same time.
        versions: dict of version to state; the label "stable" is that of the lowest.
        raw: bool. Whether it is the form that reads raw text.
        signatures: dict of name to `(inputs, outputs)`.
        failures: list of Failure, each answered once, to whichever prediction comes first.
        unavailable: bytes. Requests with a source that contains them are always answered with UNAVAILABLE.
        refused: bytes. Requests with a source that contains them are always answered with INVALID_ARGUMENT.
        outputs: dict from an output to a value that replaces its value for each pair; an empty value removes them.
        shapes: dict from an output to the shape that gRPC declares in place of that of its values.
        damage: bytes that gRPC appends to the signatures.
        delay: callable that gives the seconds an answer takes.
        gather: int. The first predictions wait until this many run at the same time.
        held: threading.Event. Answers wait for it.
        holding: threading.Event. Set when the first answer waits.
    """

    def __init__(self):
        self.requests, self.most_at_once, self._now = [], 0, 0
        self.versions, self.raw, self.signatures = {1: "AVAILABLE"}, False, dict(SIGNATURES)
        self.failures, self.unavailable, self.refused = [], None, None
        self.outputs, self.shapes, self.damage, self.delay, self.gather = {}, {}, b"", (lambda: 0), 1
        self.held, self.holding = threading.Event(), threading.Event()
        self.held.set()
        self._changed = threading.Condition()

    def find(self, name, version, label):
        """Returns the versions that are asked for; raises NOT_FOUND if there are none."""
        wanted = min(self.versions) if label == "stable" else version
        if name != "encdec" or label not in (None, "stable") or wanted not in (None, *self.versions):
            raise Failure("NOT_FOUND", f"Servable not found for request: {name} {version} {label}")
        return self.versions if wanted is None else {wanted: self.versions[wanted]}

    def served(self, versions):
        """Returns the version that answers: the latest that is available."""
        return max(version for version, state in versions.items() if state == "AVAILABLE")

    def predict(self, signature, sources, targets, asked):
        """Returns all outputs: dict from name to a list of numbers or arrays."""
        with self._changed:
            self.requests.append((signature, sources, targets, asked))
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self._changed.notify_all()
            failure = self.failures.pop() if self.failures else None
            if not self._changed.wait_for(lambda: self.most_at_once >= self.gather, timeout=10):
                self.gather = 1  # there are fewer, which the test will notice
        try:
            time.sleep(self.delay())
            if not self.held.is_set():
                self.holding.set()
                self.held.wait(60)
            if failure:
                raise failure
            return self._scores(sources, targets)
        finally:
            with self._changed:
                self._now -= 1

    def _scores(self, sources, targets):
        if self.unavailable and any(self.unavailable in source for source in sources):
            raise Failure("UNAVAILABLE", "The batch scheduling queue is full")
        refused = [source for source in sources if self.refused and self.refused in source]
        if refused:
            # As TensorFlow words a failed assertion.
            tokens = len(refused[0].split())
            message = f"assertion failed: [found a source of] [{tokens}] [tokens, expected at most {tokens - 1}]"
            raise Failure("INVALID_ARGUMENT", f"{message}\n\t [[{{{{node Assert/Assert}}}}]]")
        try:
            pairs = [(self.read(source), self.read(target)) for source, target in zip(sources, targets, strict=True)]
        except UnicodeDecodeError as error:
            raise Failure("INVALID_ARGUMENT", "found a source that is not UTF-8, expected UTF-8") from error
        tokens = [token_scores(*pair) for pair in pairs]
        longest = max(map(len, tokens))
        outputs = {
            "log_prob": [row.sum() for row in tokens],
            "token_count": [len(row) for row in tokens],
            "unknown_count": [unknown_count(target) for _, target in pairs],
            "token_log_probs": [np.pad(row, (0, longest - len(row))) for row in tokens],
        }
        return outputs | {name: [value] * len(pairs) if value else [] for name, value in self.outputs.items()}

    def read(self, string):
        """Returns the words that the model reads in a string that a client sent."""
        text = string.decode()
        return text.split() if self.raw else model_words(text, factored=False)


@contextlib.contextmanager
def serving(model, grpc_port=0, rest_port=0):
    """Serves a FakeModel, by default at free ports; yields a dict of addresses for `--server`, "grpc" and "rest"."""
    server = grpc.server(ThreadPoolExecutor(40))
    add_PredictionServiceServicer_to_server(_Predictions(model), server)
    add_ModelServiceServicer_to_server(_Models(model), server)
    port = server.add_insecure_port(f"localhost:{grpc_port}")
    server.start()
    http = _HttpServer(("localhost", rest_port), _Handler)
    http.model = model
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield {"grpc": f"localhost:{port}", "rest": f"http://localhost:{http.server_address[1]}"}
    finally:
        model.held.set()
        http.shutdown()
        thread.join()
        http.server_close()
        server.stop(None).wait()


def _asked(spec):
    version = spec.version.value if spec.HasField("version") else None
    return version, spec.version_label or None


def _aborting(method):
    def guarded(self, request, context):
        try:
            return method(self, request)
        except Failure as failure:
            context.abort(grpc.StatusCode[failure.code], failure.message)

    return guarded


class _Predictions(PredictionServiceServicer):
    def __init__(self, model):
        self._model = model

    @_aborting
    def Predict(self, request):
        asked = _asked(request.model_spec)
        self._model.find(request.model_spec.name, *asked)
        signature = request.model_spec.signature_name
        for tensor in request.inputs.values():
            assert tensor.dtype == types_pb2.DT_STRING
            assert [dimension.size for dimension in tensor.tensor_shape.dim] == [len(tensor.string_val)]
        strings = [list(request.inputs[name].string_val) for name in ("source", "target")]
        response = predict_pb2.PredictResponse()
        for name, values in self._model.predict(signature, *strings, asked).items():
            if name in self._model.signatures[signature][1]:
                values = np.array(values)
                _fill(response.outputs[name], values, self._model.shapes.get(name, values.shape))
        return response

    @_aborting
    def GetModelMetadata(self, request):
        versions = self._model.find(request.model_spec.name, *_asked(request.model_spec))
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, sides in self._model.signatures.items():
            definition = signatures.signature_def[name]
            for tensors, infos in zip((definition.inputs, definition.outputs), sides, strict=True):
                for tensor, (dtype, shape) in infos.items():
                    tensors[tensor].dtype = types_pb2.DataType.Value(dtype)
                    for size in shape:
                        tensors[tensor].tensor_shape.dim.add(size=size)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.version.value = self._model.served(versions)
        response.metadata["signature_def"].Pack(signatures)
        response.metadata["signature_def"].value += self._model.damage
        return response


def _fill(tensor, values, shape):
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    # The three ways in which a server may write numbers.
    if values.ndim == 2:
        tensor.dtype, tensor.tensor_content = types_pb2.DT_FLOAT, values.astype(np.float32).tobytes()
    elif values.dtype == np.float32:
        tensor.dtype = types_pb2.DT_FLOAT
        tensor.float_val.extend(values)
    else:
        tensor.dtype = types_pb2.DT_INT32
        tensor.int_val.extend(values[:1] if len(set(values)) == 1 else values)


class _Models(ModelServiceServicer):
    def __init__(self, model):
        self._model = model

    @_aborting
    def GetModelStatus(self, request):
        response = get_model_status_pb2.GetModelStatusResponse()
        # As TensorFlow Serving does: of all versions, whatever the label.
        for version, state in self._model.find(request.model_spec.name, _asked(request.model_spec)[0], None).items():
            response.model_version_status.add(
                version=version, state=get_model_status_pb2.ModelVersionStatus.State.Value(state)
            )
        return response


class _HttpServer(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # clients that went away


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?(:predict|/metadata|)")

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self._answer()

    def do_POST(self):
        self._answer()

    def _answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            name, version, label, verb = self.PATH.fullmatch(self.path).groups()
            asked = int(version) if version else None, label
            versions = self.server.model.find(name, asked[0], label if verb else None)
            if verb == ":predict":
                content, status = {"outputs": self._predict(json.loads(body), asked)}, 200
            elif verb:
                content = {"metadata": {"signature_def": {"signature_def": self._signatures()}}}
                content["model_spec"], status = {"version": str(self.server.model.served(versions))}, 200
            else:
                states = [{"version": str(version), "state": state} for version, state in versions.items()]
                content, status = {"model_version_status": states}, 200
        except Failure as failure:
            content, status = {"error": failure.message}, HTTP_STATUS[failure.code]
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _predict(self, body, asked):
        signature, inputs = body["signature_name"], body["inputs"]
        strings = [
            [base64.b64decode(s["b64"]) if isinstance(s, dict) else s.encode() for s in inputs[name]]
            for name in ("source", "target")
        ]
        outputs = self.server.model.predict(signature, *strings, asked)
        return {name: np.array(outputs[name]).tolist() for name in self.server.model.signatures[signature][1]}

    def _signatures(self):
        return {
            name: {
                kind: {
                    tensor: {
                        "dtype": dtype,
                        "tensor_shape": {"dim": [{"size": str(n), "name": ""} for n in shape], "unknown_rank": False},
                        "name": tensor,
                    }
                    for tensor, (dtype, shape) in infos.items()
                }
                for kind, infos in zip(("inputs", "outputs"), sides, strict=True)
            }
            for name, sides in self.server.model.signatures.items()
        }
