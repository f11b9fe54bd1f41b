"""The stubs of tensorflow-serving-api, imported without TensorFlow.

Its messages refer to TensorFlow's, and to import those is to import all of TensorFlow and Keras: seconds
and hundreds of megabytes, for a client that computes nothing.
"""

import contextlib
import importlib.util
import os
import sys
import types

# gRPC's own log repeats on standard error what its exceptions say.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@contextlib.contextmanager
def _tensorflow_as_a_folder():
    """Lets TensorFlow's modules be imported in the `with` block without its `__init__`."""
    found = None if "tensorflow" in sys.modules else importlib.util.find_spec("tensorflow")
    if found is None:
        yield
        return
    sys.modules["tensorflow"] = folder = types.ModuleType("tensorflow")
    folder.__path__ = list(found.submodule_search_locations)
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
        "pip install 'keras-encdec[serving]'."
    ) from error

__all__ = [
    "ModelServiceStub", "PredictionServiceStub", "get_model_metadata_pb2", "get_model_status_pb2", "grpc",
    "predict_pb2", "types_pb2",
]  # fmt: skip
