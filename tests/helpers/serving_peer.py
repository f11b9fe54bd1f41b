"""A stand-in for TensorFlow Serving, called its peer: serves SavedModels and answers as `tensorflow_model_server` does.

Run it as a program; when it serves, it prints its ports as one line of JSON. Like the stock server, it knows nothing of
Keras or TensorFlow Text. Classify, MultiInference and HandleReloadConfigRequest are not implemented. Unlike the stock
server, it also serves if no version could be loaded, so that a client can ask for the errors of the versions, and it
does not try to load a version again.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
# TensorFlow imports Keras where it can.
sys.modules["keras"] = None
import tensorflow as tf  # noqa: E402

del sys.modules["keras"]

import grpc  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from serving_peer_batching import BatchScheduler, parse_parameters  # noqa: E402
from serving_peer_models import Models  # noqa: E402
from serving_peer_rest import RestServer  # noqa: E402
from serving_peer_status import Refusal, grpc_status, refusal  # noqa: E402
from tensorflow_serving.apis import (  # noqa: E402
    get_model_metadata_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2  # noqa: E402

_FOREIGN = {"keras", "tf_keras", "tensorflow_text", "keras_encdec"}
_THREADS = 128


class Service:
    """What the servers for gRPC and REST have in common: turns requests into responses.

    Args:
        models: Models.
    """

    def __init__(self, models):
        self._models = models

    def predict(self, request):
        with self._models.use(_spec(request)) as servable:
            return servable.predict(request)

    def regress(self, request):
        with self._models.use(_spec(request)) as servable:
            return servable.regress(request)

    def status(self, request):
        return self._models.status(_spec(request))

    def inputs(self, spec):
        """Map of the `TensorInfo` of a signature's inputs, for requests in JSON."""
        name = spec.signature_name or "serving_default"
        with self._models.use(spec) as servable:
            if name not in servable.signatures:
                raise Refusal("INVALID_ARGUMENT", f'Serving signature name: "{name}" not found in signature def')
            return servable.signatures[name].inputs

    def metadata(self, request):
        spec = _spec(request)
        if not request.metadata_field:
            message = "GetModelMetadataRequest must specify at least one metadata_field"
            raise Refusal("INVALID_ARGUMENT", message)
        for field in request.metadata_field:
            if field != "signature_def":
                # The stock server never fills its "%s" in.
                raise Refusal("INVALID_ARGUMENT", f"Metadata field %s is not supported{field}")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        signatures = get_model_metadata_pb2.SignatureDefMap()
        with self._models.use(spec) as servable:
            for name, signature in servable.signatures.items():
                signatures.signature_def[name].CopyFrom(signature)
            response.model_spec.name, response.model_spec.version.value = spec.name, servable.version
        response.metadata["signature_def"].Pack(signatures)
        return response


class _PredictionServicer(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, service):
        self.Predict, self.Regress = _method(service.predict), _method(service.regress)
        self.GetModelMetadata = _method(service.metadata)


class _ModelServicer(model_service_pb2_grpc.ModelServiceServicer):
    def __init__(self, service):
        self.GetModelStatus = _method(service.status)


def _method(function):
    """Makes a method for gRPC from a function that turns a request into a response."""

    def method(request, context):
        try:
            return function(request)
        except Exception as error:
            status = grpc_status(error)
        return context.abort(*status)

    return method


def _spec(request):
    if not request.HasField("model_spec"):
        raise Refusal("INVALID_ARGUMENT", "Missing ModelSpec")
    return request.model_spec


def _flags():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--model_base_path")
    parser.add_argument("--model_name", default="default")
    parser.add_argument("--model_config_file")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rest_api_port", type=int)
    parser.add_argument("--enable_batching", action="store_true")
    parser.add_argument("--batching_parameters_file")
    parser.add_argument("--file_system_poll_wait_seconds", type=float, default=1)
    parser.add_argument("--model_config_file_poll_wait_seconds", type=float, default=0, help="0: never, as by default")
    parser.add_argument("--allow_version_labels_for_unavailable_models", action="store_true")
    parser.add_argument("--stop_at_end_of_input", action="store_true", help="stop when standard input ends")
    return parser.parse_args()


def _config(flags):
    config = model_server_config_pb2.ModelServerConfig()
    if flags.model_config_file:
        return text_format.Parse(pathlib.Path(flags.model_config_file).read_text(), config)
    if not flags.model_base_path:
        message = "Both server_options.model_base_path and server_options.model_config_file are empty!"
        raise Refusal("INVALID_ARGUMENT", message)
    config.model_config_list.config.add(
        name=flags.model_name, base_path=flags.model_base_path, model_platform="tensorflow"
    )
    return config


def _scheduler(flags):
    if flags.batching_parameters_file and not flags.enable_batching:
        raise Refusal(
            "INVALID_ARGUMENT",
            "server_options.batching_parameters_file is set without setting server_options.enable_batching to true.",
        )
    if not flags.enable_batching:
        return None
    file = flags.batching_parameters_file
    return BatchScheduler(parse_parameters(pathlib.Path(file).read_text() if file else ""))


def _repeat(function, seconds):
    """Calls a function again and again in a thread, with pauses of some seconds; with 0 seconds, it is never called."""

    def work():
        while True:
            time.sleep(seconds)
            try:
                function()
            except Exception as error:
                print(refusal(error).message, file=sys.stderr, flush=True)

    if seconds > 0:
        threading.Thread(target=work, daemon=True).start()


def _serve(flags):
    """Starts both servers; returns the ports by their names."""
    models = Models(_config(flags), _scheduler(flags), flags.allow_version_labels_for_unavailable_models)
    models.poll()
    assert not _FOREIGN & sys.modules.keys()
    service = Service(models)
    # Messages of any size, as in the stock server.
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(_THREADS), options=options)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_PredictionServicer(service), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(_ModelServicer(service), server)
    ports = {"grpc_port": server.add_insecure_port(f"127.0.0.1:{flags.port}")}
    server.start()
    if flags.rest_api_port is not None:
        rest = RestServer(flags.rest_api_port, service)
        threading.Thread(target=rest.serve_forever, daemon=True).start()
        ports["rest_api_port"] = rest.server_address[1]
    _repeat(models.poll, flags.file_system_poll_wait_seconds)
    if flags.model_config_file:
        _repeat(lambda: models.configure(_config(flags)), flags.model_config_file_poll_wait_seconds)
    return ports, server


def main():
    flags = _flags()
    tf.get_logger().setLevel("ERROR")
    # The stock server calls the same function when it starts.
    library = ctypes.CDLL(str(pathlib.Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    library._ZN10tensorflow21DisableXlaCompilationEv()
    try:
        ports, server = _serve(flags)
    except Exception as error:
        refused = refusal(error)
        sys.exit(f"Failed to start server. Error: {refused.code.name}: {refused.message}")
    print(json.dumps(ports), flush=True)
    if flags.stop_at_end_of_input:
        sys.stdin.read()
        os._exit(0)  # does not wait for threads
    server.wait_for_termination()


if __name__ == "__main__":
    main()
