"""Calls a model on a server by REST."""

import base64
import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any
from urllib.parse import quote

import numpy as np
import requests

from keras_encdec.export.client.model_server import ModelName, ModelVersionStatus, ServerError, SignatureDef, TensorInfo
from keras_encdec.runtime.settings_files import Json

_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
# Codes of answers without an error message of TensorFlow Serving, if they differ: a proxy limits requests or their
# size, or cannot reach the server.
_PROXY_CODES = {413: "INVALID_ARGUMENT", 429: "UNAVAILABLE", 502: "UNAVAILABLE"}


class RestClient:
    """Calls a model that TensorFlow Serving serves, as `GrpcClient` does, by HTTP and JSON.

    It keeps up to `connections` connections open for later calls.
    """

    def __init__(self, address: str, model: ModelName, deadline: float, connections: int) -> None:
        self.address, self.model, self.deadline = address.rstrip("/"), model, deadline
        self._session = requests.Session()
        self._session.mount(self.address, requests.adapters.HTTPAdapter(pool_maxsize=connections))
        self._closed: Future[None] = Future()
        version = "" if model.version is None else f"/versions/{model.version}"
        label = "" if model.label is None else f"/labels/{quote(model.label, safe='')}"
        self._url = f"{self.address}/v1/models/{quote(model.name, safe='')}{version}{label}"

    def predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, np.ndarray]:
        """See `GrpcClient.predict`."""
        texts = {name: [_json_string(string) for string in strings] for name, strings in inputs.items()}
        answer = self._call("POST", ":predict", {"signature_name": signature, "inputs": texts})
        with _expected_form():
            return {name: _numbers(values) for name, values in dict(answer["outputs"]).items() if name in outputs}

    def metadata(self) -> tuple[int, dict[str, SignatureDef]]:
        """See `GrpcClient.metadata`."""
        answer = self._call("GET", "/metadata")
        with _expected_form():
            definitions = dict(answer["metadata"]["signature_def"]["signature_def"])
            return int(answer["model_spec"]["version"]), {
                name: {
                    "inputs": _tensors(definition.get("inputs", {})),
                    "outputs": _tensors(definition.get("outputs", {})),
                }
                for name, definition in definitions.items()
            }

    def status(self) -> list[ModelVersionStatus]:
        """See `GrpcClient.status`."""
        answer = self._call("GET", "")
        with _expected_form():
            return [
                {"version": each["version"], "state": each["state"], "status": each.get("status", {})}
                for each in answer["model_version_status"]
            ]

    def close(self) -> None:
        """Cancels calls in other threads, and closes the connections."""
        if not self._closed.done():
            self._closed.set_result(None)
        self._session.close()

    def _call(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> Json:
        """Calls the server, and returns its answer in JSON."""
        # The call runs in a daemon thread, because the library can neither cancel a call nor limit its total time.
        answer: Future[requests.Response] = Future()
        threading.Thread(target=self._ask, args=(answer, method, self._url + path, body), daemon=True).start()
        either: tuple[Future[Any], ...] = answer, self._closed
        wait(either, self.deadline, FIRST_COMPLETED)
        if self._closed.done():
            raise ServerError("CANCELLED", "the connection was closed")
        if not answer.done():
            raise ServerError("DEADLINE_EXCEEDED", "")
        try:
            return _content(answer.result())
        except requests.Timeout as error:  # that of the library, which may come just before the one above
            raise ServerError("DEADLINE_EXCEEDED", "") from error
        except requests.exceptions.SSLError as error:
            reason = re.search(r"\[SSL[^\]]*\] (.*?)(?: \(_ssl|'\))", str(error))
            raise ServerError("UNKNOWN", f"TLS failed ({reason[1] if reason else error})") from error
        except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
            if "BadStatusLine(" in str(error):
                raise ServerError("UNKNOWN", "its answer is not HTTP; a port for gRPC has no http://") from error
            reason = re.search(r"\[Errno -?\d+\] ([\w ]+)", str(error))
            raise ServerError("UNAVAILABLE", reason[1] if reason else str(error)) from error
        except requests.RequestException as error:
            raise ServerError("UNKNOWN", str(error)) from error

    def _ask(self, answer: "Future[requests.Response]", method: str, url: str, body: Mapping[str, Json] | None) -> None:
        try:
            answer.set_result(self._session.request(method, url, json=body, timeout=self.deadline))
        except Exception as error:  # `_call` raises it in its own thread
            answer.set_exception(error)


def _content(response: requests.Response) -> Json:
    try:
        content = response.json()
    except (ValueError, RecursionError):  # ValueError also for a longer number than Python parses
        content = None
    if response.ok:
        return content
    reason = content.get("error") if isinstance(content, dict) else None
    status, codes = response.status_code, _CODES
    if not isinstance(reason, str):
        codes = _CODES | _PROXY_CODES
        reason = f"HTTP {status} {response.reason}, without an error message of TensorFlow Serving"
    raise ServerError(codes.get(status, "UNKNOWN"), reason)


@contextlib.contextmanager
def _expected_form() -> Iterator[None]:
    """Raises ServerError if the `with` block finds an answer that TensorFlow Serving would not give."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ServerError("UNKNOWN", "an answer that is not TensorFlow Serving's") from error


def _numbers(values: Json) -> np.ndarray:
    array = np.array(values)  # raises ValueError for rows of different lengths
    if array.dtype.kind not in "fi":
        raise TypeError
    return array


def _tensors(infos: Mapping[str, TensorInfo]) -> dict[str, TensorInfo]:
    """Checks that each input or output has a type."""
    return {name: {**info, "dtype": info["dtype"]} for name, info in infos.items()}


def _json_string(string: bytes) -> str | dict[str, str]:
    """Converts bytes to a JSON string, or to TensorFlow Serving's base64 form if they are not UTF-8."""
    try:
        return string.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(string).decode()}
