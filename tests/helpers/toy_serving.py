"""A toy SavedModel, requests to it, and a running peer of TensorFlow Serving that answers them."""

import json
import time
import urllib.error
import urllib.request

import grpc
import pytest
import tensorflow as tf
from serving_process import ServingProcess
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

AVAILABLE, END = get_model_status_pb2.ModelVersionStatus.AVAILABLE, get_model_status_pb2.ModelVersionStatus.END


class Toy(tf.Module):
    """Scores are minus the lengths, minus the version's number; `batch` returns the size of the batch in the graph."""

    def __init__(self, version):
        super().__init__()
        self.version = tf.Variable(float(version))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=name) for name in ("source", "target")])
    def score(self, source, target):
        lengths = tf.strings.length(source) + tf.strings.length(target)
        good = tf.debugging.Assert(tf.reduce_all(tf.reshape(source, [-1]) != "bad"), ["found bad:", source])
        with tf.control_dependencies([good]):
            return {"log_prob": -tf.cast(lengths, tf.float32) - self.version, "token_count": lengths}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs):
        features = {"x": tf.io.FixedLenFeature([], tf.float32)}
        return {"outputs": tf.io.parse_example(inputs, features)["x"] * 2}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def batch(self, x):
        return {"size": tf.zeros_like(x, tf.int64) + tf.size(x, tf.int64), "double_bytes": tf.as_string(x * 2)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")], jit_compile=True)
    def compiled(self, x):
        return {"y": x * 2}


def save(path, version=1, warmup=(), compiled=False):
    """Writes a version to a model's folder, at once as an export does."""
    toy, partial = Toy(version), path / f"tmp.{version}"
    signatures = {"serving_default": toy.score, "regress": toy.regress, "batch": toy.batch}
    signatures |= {"compiled": toy.compiled} if compiled else {}
    tf.saved_model.save(toy, partial, signatures=signatures)
    if warmup:
        (partial / "assets.extra").mkdir()
        with tf.io.TFRecordWriter(str(partial / "assets.extra" / "tf_serving_warmup_requests")) as writer:
            for record in warmup:
                writer.write(record)
    partial.rename(path / str(version))


def predict_request(source=("a", "bc"), target=("d", "ef"), model="toy", signature="", **spec):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, signature
    if "version" in spec:
        request.model_spec.version.value = spec["version"]
    if "label" in spec:
        request.model_spec.version_label = spec["label"]
    for name, values in (("source", source), ("target", target)):
        request.inputs[name].CopyFrom(tf.make_tensor_proto(values, tf.string if isinstance(values, tuple) else None))
    return request


def x_request(x, model="toy"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = model, "batch"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(x, tf.float32))
    return request


def regress_request(values, context=False):
    request = regression_pb2.RegressionRequest()
    request.model_spec.name, request.model_spec.signature_name = "toy", "regress"
    examples = [tf.train.Example(features={"feature": {"x": {"float_list": {"value": [value]}}}}) for value in values]
    if context:
        request.input.example_list_with_context.context.CopyFrom(examples[0])
        request.input.example_list_with_context.examples.extend([tf.train.Example()] * 2)
    else:
        request.input.example_list.examples.extend(examples)
    return request


class Peer:
    """A running peer with stubs."""

    def __init__(self, **flags):
        self.process = ServingProcess(**flags)
        self.channel = grpc.insecure_channel(self.process.grpc_address, [("grpc.max_receive_message_length", -1)])
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)

    def close(self):
        self.channel.close()
        self.process.close()
        assert not self.process.alive()

    def log_prob(self, **arguments):
        return list(self.prediction.Predict(predict_request(**arguments)).outputs["log_prob"].float_val)

    def refusal(self, request):
        """Code and details of what a request is refused with."""
        method = self.prediction.Regress if isinstance(request, regression_pb2.RegressionRequest) else None
        with pytest.raises(grpc.RpcError) as caught:
            (method or self.prediction.Predict)(request)
        return caught.value.code(), caught.value.details()

    def states(self, model="toy"):
        request = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": model})
        statuses = self.models.GetModelStatus(request).model_version_status
        return {found.version: (found.state, found.status.error_code, found.status.error_message) for found in statuses}

    def rest(self, path, document=None):
        """Status and answer of a POST of a document or bytes, or of a GET."""
        body = document if isinstance(document, bytes | None) else json.dumps(document).encode()
        request = urllib.request.Request(f"{self.process.rest_address}/v1/models/{path}", body)
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def wait(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
