"""Calls a model on a server by gRPC."""

import contextlib
import importlib.util
import math
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message

from keras_encdec.export.client.model_server import ModelName, ModelVersionStatus, ServerError, SignatureDef

# By default gRPC also writes the messages of its exceptions to standard error.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@contextlib.contextmanager
def _tensorflow_as_a_folder() -> Iterator[None]:
    """Lets the `with` block import modules of TensorFlow without running its `__init__.py`, which takes seconds."""
    spec = None if "tensorflow" in sys.modules else importlib.util.find_spec("tensorflow")
    if spec is None:
        yield
        return
    sys.modules["tensorflow"] = folder = types.ModuleType("tensorflow")
    folder.__path__ = list(spec.submodule_search_locations or [])
    try:
        yield
    finally:
        del sys.modules["tensorflow"]


try:
    with _tensorflow_as_a_folder():
        import grpc
        from tensorflow.core.framework import types_pb2
        from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2
        from tensorflow_serving.apis.model_service_pb2_grpc import ModelServiceStub
        from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub
except ImportError as error:
    raise ImportError(
        f"Calling a server by gRPC needs grpcio and tensorflow-serving-api ({error}): "
        'pip install "keras-encdec[serving]".'
    ) from error

_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A channel that could not connect refuses calls until it tries again. By default it waits for minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
# A method of a stub.
Method: TypeAlias = Callable[..., Message]

_VALUES = {types_pb2.DT_FLOAT: ("float_val", np.float32), types_pb2.DT_INT32: ("int_val", np.int32)}


class GrpcClient:
    """Calls a model that TensorFlow Serving serves, over one channel. Its methods may be called from several threads.

    Args:
        address: str. Host and port, such as "localhost:8500".
        model: ModelName.
        deadline: float. Seconds that a call may take.
    """

    def __init__(self, address: str, model: ModelName, deadline: float) -> None:
        self.address, self.model, self.deadline = address, model, deadline
        self._channel = grpc.insecure_channel(address, _OPTIONS)
        self._predictions, self._models = PredictionServiceStub(self._channel), ModelServiceStub(self._channel)

    def predict(self, signature: str, inputs: dict[str, list[bytes]], outputs: list[str]) -> dict[str, np.ndarray]:
        """Calls a signature with strings by the name of an input; returns its outputs of these names, float32 or int32.

        Raises:
            ServerError: if the call fails.
        """
        # An output_filter would not help: a server prepares and queues each set of outputs separately, and the other
        # outputs are small.
        request = predict_pb2.PredictRequest()
        self._name_model(request.model_spec)
        request.model_spec.signature_name = signature
        for name, strings in inputs.items():
            tensor = request.inputs[name]
            tensor.dtype = types_pb2.DT_STRING
            tensor.tensor_shape.dim.add(size=len(strings))
            tensor.string_val.extend(strings)
        response = self._call(self._predictions.Predict, request)
        return {name: _array(response.outputs[name]) for name in outputs if name in response.outputs}

    def metadata(self) -> tuple[int, dict[str, SignatureDef]]:
        """Returns the number of the version that answers and its signatures by name."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        self._name_model(request.model_spec)
        response = self._call(self._predictions.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        try:
            response.metadata["signature_def"].Unpack(signatures)
        except DecodeError as error:
            raise ServerError("INTERNAL", "found signatures that cannot be read") from error
        definitions = MessageToDict(signatures, preserving_proto_field_name=True).get("signature_def", {})
        return response.model_spec.version.value, definitions

    def status(self) -> list[ModelVersionStatus]:
        """Returns the model's versions and their states."""
        request = get_model_status_pb2.GetModelStatusRequest()
        self._name_model(request.model_spec)
        response = self._call(self._models.GetModelStatus, request)
        message: dict[str, list[ModelVersionStatus]] = MessageToDict(response, preserving_proto_field_name=True)
        return message.get("model_version_status", [])

    def close(self) -> None:
        """Cancels calls in other threads, and closes the connection."""
        self._channel.close()

    def _name_model(self, spec: Message) -> None:
        spec.name = self.model.name
        if self.model.version is not None:
            spec.version.value = self.model.version
        if self.model.label is not None:
            spec.version_label = self.model.label

    def _call(self, method: Method, request: Message) -> Message:
        try:
            return method(request, timeout=self.deadline)
        except grpc.RpcError as error:
            raise ServerError(error.code().name, error.details() or "") from error


def _array(tensor: Message) -> np.ndarray:
    """Converts a TensorProto of numbers to an array. A TensorProto may leave out elements equal to its last value."""
    if tensor.dtype not in _VALUES:
        raise ServerError("INTERNAL", f"found an output of type {tensor.dtype}, expected float32 or int32")
    field, dtype = _VALUES[tensor.dtype]
    shape = [dimension.size for dimension in tensor.tensor_shape.dim]
    try:
        if tensor.tensor_content:
            return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
        values = np.array(getattr(tensor, field), dtype)
        missing = math.prod(shape) - len(values)
        return np.pad(values, (0, missing), "edge" if len(values) else "constant").reshape(shape)
    except (ValueError, TypeError, MemoryError) as error:
        raise ServerError("INTERNAL", f"found an output whose values do not fit its shape, {shape}") from error
