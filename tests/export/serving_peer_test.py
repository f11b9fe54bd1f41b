"""The peer of TensorFlow Serving that other tests hold the export against."""

import base64
import contextlib
import json
import shutil
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from serving_peer_batching import parse_parameters
from serving_peer_models import Models
from serving_peer_status import Refusal
from serving_process import ServingProcess
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

AVAILABLE, END = get_model_status_pb2.ModelVersionStatus.AVAILABLE, get_model_status_pb2.ModelVersionStatus.END
BATCHING = """
max_batch_size { value: 8 } batch_timeout_micros { value: 300000 } max_enqueued_batches { value: 1 }
num_batch_threads { value: 2 } allowed_batch_sizes: 1 allowed_batch_sizes: 4 allowed_batch_sizes: 8
"""


class Toy(tf.Module):
    """Scores by lengths, less the number of its version; `batch` tells what size of batch the graph saw."""

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


@pytest.fixture(scope="module")
def base_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy")
    for name in ("tmp.unfinished", "1.old", "latest"):
        (path / name).mkdir()
    save(path)
    return path


@pytest.fixture(scope="module")
def plain(base_path):
    """A peer of one model, without batching."""
    flags = {"model_base_path": base_path, "model_name": "toy", "rest_api_port": 0}
    with contextlib.closing(Peer(**flags, file_system_poll_wait_seconds=0.1)) as peer:
        yield peer


@pytest.fixture(scope="module")
def batched(tmp_path_factory):
    """A peer of several models by a configuration, with batching; it has the `folder` and writes configurations."""
    folder = tmp_path_factory.mktemp("models")
    for name in ("toy", "compiled", "unknown_op", "warm", "bad_warmup", "many_warmups"):
        (folder / name).mkdir()
    save(folder / "toy", 1)
    save(folder / "toy", 2)
    save(folder / "compiled", compiled=True)
    save(folder / "unknown_op")
    graph = folder / "unknown_op" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes().replace(b"StringLength", b"OtherzLength"))
    logs = [
        prediction_log_pb2.PredictionLog(predict_log={"request": predict_request()}).SerializeToString(),
        prediction_log_pb2.PredictionLog(regress_log={"request": regress_request([1.0])}).SerializeToString(),
    ]
    save(folder / "warm", warmup=logs)
    wrong = prediction_log_pb2.PredictionLog(predict_log={"request": predict_request(source=("bad",), target=("a",))})
    save(folder / "bad_warmup", warmup=[*logs, wrong.SerializeToString()])
    save(folder / "many_warmups", warmup=[b""] * 1001)
    (folder / "batching.txt").write_text(BATCHING)

    def configure(versions, labels=()):
        policy = "".join(f"versions: {version} " for version in versions)
        config = 'config { name: "%s" base_path: "%s" model_platform: "tensorflow" %s }\n'
        rest = [config % (path.name, path, "") for path in folder.iterdir() if path.is_dir() and path.name != "toy"]
        pairs = " ".join(f'version_labels {{ key: "{label}" value: {version} }}' for label, version in labels)
        toy = config % ("toy", folder / "toy", f"model_version_policy {{ specific {{ {policy} }} }} {pairs}")
        partial = folder / "partial"
        partial.write_text(f"model_config_list {{ {toy} {''.join(rest)} }}")
        partial.rename(folder / "models.txt")

    configure([1, 2])
    flags = {"model_config_file": folder / "models.txt", "model_config_file_poll_wait_seconds": 0.1}
    flags |= {"enable_batching": True, "batching_parameters_file": folder / "batching.txt", "rest_api_port": 0}
    with contextlib.closing(Peer(**flags, file_system_poll_wait_seconds=0.1)) as peer:
        peer.configure, peer.folder = configure, folder
        yield peer


def test_predict(plain):
    response = plain.prediction.Predict(predict_request())
    assert {*response.outputs} == {"log_prob", "token_count"}
    assert list(response.outputs["log_prob"].float_val) == [-3, -5]
    assert list(response.outputs["token_count"].int_val) == [2, 4]
    np.testing.assert_array_equal(tf.make_ndarray(response.outputs["token_count"]), [2, 4])
    spec = response.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("toy", "serving_default", 1)
    request = predict_request((), (), version=1)
    request.output_filter.append("log_prob")
    response = plain.prediction.Predict(request)
    assert {*response.outputs} == {"log_prob"} and tf.make_ndarray(response.outputs["log_prob"]).shape == (0,)
    strings = plain.prediction.Predict(x_request([1, 2])).outputs["double_bytes"].string_val
    assert [float(string) for string in strings] == [2, 4]


def test_refusals(plain):
    invalid, not_found = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
    assert plain.refusal(predict_request(model="no")) == (not_found, "Servable not found for request: Latest(no)")
    code, message = plain.refusal(predict_request(version=7))
    assert (code, message) == (not_found, "Servable not found for request: Specific(toy, 7)")
    assert plain.refusal(predict_request(label="x")) == (invalid, "Unrecognized servable version label: x")
    assert plain.refusal(predict_pb2.PredictRequest()) == (invalid, "Missing ModelSpec")
    expected = grpc.StatusCode.FAILED_PRECONDITION, 'Serving signature key "no" not found.'
    assert plain.refusal(predict_request(signature="no")) == expected
    request = predict_request()
    del request.inputs["source"]
    code, message = plain.refusal(request)
    assert code == invalid and message.startswith("input size does not match signature: 1!=2 len({target})")
    request = predict_request()
    request.output_filter.append("no")
    code, message = plain.refusal(request)
    assert code == invalid and message.startswith("output tensor alias not found in signature: no Outputs expected")
    code, message = plain.refusal(predict_request(source=np.float32([1, 2])))
    assert code == invalid and "to be string but float is provided" in message
    request = predict_request()
    request.inputs["source"].tensor_shape.dim[0].size = 2**50
    assert plain.refusal(request) == (invalid, "tensor parsing error: source")
    code, message = plain.refusal(predict_request(("bad",), ("a",)))
    assert code == invalid and "found bad:" in message


def test_another_rank_reaches_the_graph(plain):
    request = predict_request(np.array([[b"a", b"bc"]]), np.array([[b"d", b"ef"]]))
    np.testing.assert_array_equal(tf.make_ndarray(plain.prediction.Predict(request).outputs["log_prob"]), [[-3, -5]])
    assert plain.log_prob(source=np.array(b"abc"), target=np.array(b"")) == [-4]
    assert plain.log_prob(source=("a",), target=("b", "cde")) == [-3, -5]


def test_regress(plain):
    for context in (False, True):
        response = plain.prediction.Regress(regress_request([1.5, 1.5], context))
        assert [found.value for found in response.result.regressions] == [3, 3]
        assert response.model_spec.version.value == 1
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    assert plain.refusal(regress_request([])) == (invalid, "Input is empty.")
    request = regress_request([1.0])
    request.model_spec.signature_name = "serving_default"
    assert plain.refusal(request) == (invalid, "Expected one input Tensor.")


def test_other_methods(plain):
    request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec={"name": "toy"})
    request.metadata_field.append("signature_def")
    response = plain.prediction.GetModelMetadata(request)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures) and response.model_spec.version.value == 1
    assert {*signatures.signature_def["serving_default"].inputs} == {"source", "target"}
    request.metadata_field.append("other")
    with pytest.raises(grpc.RpcError, match="is not supported"):
        plain.prediction.GetModelMetadata(request)
    assert plain.states() == {1: (AVAILABLE, 0, "")}
    reload = model_management_pb2.ReloadConfigRequest()
    for call in (
        plain.prediction.Classify.future(classification_pb2.ClassificationRequest()),
        plain.models.HandleReloadConfigRequest.future(reload),
    ):
        assert call.code() == grpc.StatusCode.UNIMPLEMENTED


def test_rest(plain):
    rows = {"instances": [{"source": "a", "target": "d"}, {"source": {"b64": "YmM="}, "target": "ef"}]}
    scores = [{"log_prob": -3.0, "token_count": 2}, {"log_prob": -5.0, "token_count": 4}]
    assert plain.rest("toy:predict", rows) == (200, {"predictions": scores})
    assert plain.rest("toy/versions/1:predict", rows)[0] == 200
    columns = {"inputs": {"source": ["a", "bc"], "target": ["d", "ef"]}}
    assert plain.rest("toy:predict", columns) == (200, {"outputs": {"log_prob": [-3, -5], "token_count": [2, 4]}})
    # A signature with one input and two outputs: plain values in, and bytes out.
    status, answer = plain.rest("toy:predict", {"signature_name": "batch", "instances": [1.5]})
    assert answer["predictions"] == [{"double_bytes": {"b64": "My4wMDAwMDA="}, "size": 1}]
    document = {"signature_name": "regress", "examples": [{"x": 1.5}, {"x": [0.1]}]}
    assert plain.rest("toy:regress", document) == (200, {"results": [3, 0.2]})
    status, answer = plain.rest("toy")
    assert answer["model_version_status"][0]["version"] == "1"
    assert answer["model_version_status"][0]["status"] == {"error_code": "OK", "error_message": ""}
    status, answer = plain.rest("toy/metadata")
    assert "serving_default" in answer["metadata"]["signature_def"]["signature_def"]


def test_rest_of_one_output_gives_bare_values(plain):
    serialized = regress_request([0.5]).input.example_list.examples[0].SerializeToString()
    document = {"signature_name": "regress", "inputs": [{"b64": base64.b64encode(serialized).decode()}]}
    assert plain.rest("toy:predict", document) == (200, {"outputs": [1.0]})
    document["instances"] = document.pop("inputs")
    assert plain.rest("toy:predict", document) == (200, {"predictions": [1.0]})


@pytest.mark.parametrize(
    ("path", "document", "status", "message"),
    [
        ("no:predict", {"instances": [1]}, 404, "Servable not found for request: Latest(no)"),
        ("toy/versions/7:predict", {"instances": [1]}, 404, "Servable not found for request: Specific(toy, 7)"),
        ("toy/labels/x:predict", {"instances": [1]}, 400, "Unrecognized servable version label: x"),
        ("toy:other", {}, 400, "Malformed request: POST /v1/models/toy:other"),
        ("toy:predict", b"{", 400, "JSON Parse error"),
        ("toy:predict", b"[" * 100_000, 400, "JSON Parse error"),
        ("toy:predict", [1], 400, "Is not object"),
        ("toy:predict", {}, 400, "Missing 'inputs' or 'instances' key"),
        ("toy:predict", {"signature_name": "no", "inputs": 1}, 400, 'Serving signature name: "no" not found'),
        ("toy:predict", {"instances": [1]}, 400, "expecting list of objects as multiple input tensors required"),
        ("toy:predict", {"instances": [{"source": "a"}]}, 400, "keys must be equal to: source,target"),
        ("toy:predict", {"inputs": {"source": ["a"]}}, 400, "Missing named input: target in 'inputs' object."),
        ("toy:predict", {"inputs": {"source": [1], "target": ["a"]}}, 400, "is not of expected type: string"),
        ("toy:predict", {"inputs": {"source": ["\ud800"], "target": ["a"]}}, 400, "surrogate pair"),
        ("toy:predict", {"signature_name": "batch", "inputs": [1e50]}, 400, "without loss of precision"),
        ("toy:predict", {"inputs": {"source": ["bad"], "target": ["a"]}}, 400, "found bad:"),
        ("no", None, 404, "Could not find any versions of model no"),
        ("toy/versions/9", None, 404, "Could not find version 9 of model toy"),
    ],
)
def test_rest_refusals(plain, path, document, status, message):
    found, answer = plain.rest(path, document)
    assert found == status and message in answer["error"], answer


def test_outlives_bad_requests(plain):
    requests = [predict_request(("bad",), ("a",)), predict_request(version=7), predict_request(source=np.float32([1]))]
    requests += [predict_request((b"\xff\xfe\x00",), ("a",)), predict_request(("a",), ("b", "c", "d"))]

    def send(count):
        for start in range(0, count, 200):
            futures = [plain.prediction.Predict.future(requests[i % 5]) for i in range(start, start + 200)]
            for future in futures:
                future.exception()

    send(2000)
    plain.refusal(predict_request(("x" * 50_000_000 + "bad", "bad"), ("a", "a")))
    assert plain.log_prob(source=("x" * 10_000_000,), target=("",)) == [-10_000_001]
    before = plain.process.rss()
    send(10_000)
    assert plain.process.alive() and plain.process.rss() < before + 2**26
    assert plain.log_prob() == [-3, -5]


def test_new_versions_replace_old_ones(plain, base_path):
    (base_path / "2").mkdir()  # without a SavedModel
    wait(lambda: plain.states().get(2, (0,))[0] == END)
    assert "Could not find SavedModel" in plain.states()[2][2] and plain.states()[2][1] == 5
    assert plain.log_prob() == [-3, -5]
    save(base_path, 3)
    wait(lambda: plain.states().get(1, (0,))[0] == END)
    assert plain.states()[3][0] == AVAILABLE and plain.log_prob() == [-5, -7]
    assert plain.refusal(predict_request(version=1))[0] == grpc.StatusCode.NOT_FOUND
    shutil.rmtree(base_path / "3")
    shutil.rmtree(base_path / "2")
    wait(lambda: plain.states()[1][0] == AVAILABLE)
    assert plain.log_prob() == [-3, -5]


def test_specific_versions_and_labels(batched):
    assert batched.log_prob() == [-4, -6] and batched.log_prob(version=1) == [-3, -5]
    batched.configure([1, 2], [("stable", 1)])
    wait(lambda: batched.rest("toy/labels/stable:predict", {"inputs": {"source": [], "target": []}})[0] == 200)
    assert batched.log_prob(label="stable") == [-3, -5]
    batched.configure([1, 2], [("stable", 2)])
    wait(lambda: batched.log_prob(label="stable") == [-4, -6])
    batched.configure([1, 2], [("stable", 7)])
    wait(lambda: "Request to assign label to version 7 of model toy" in batched.process.log())
    assert batched.log_prob(label="stable") == [-4, -6]
    batched.configure([2])
    wait(lambda: batched.states()[1][0] == END)
    assert batched.refusal(predict_request(label="stable"))[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_compiled_graph_fails(batched):
    request = x_request([1], "compiled")
    request.model_spec.signature_name = "compiled"
    code, message = batched.refusal(request)
    assert code == grpc.StatusCode.INTERNAL and "XLA compilation disabled" in message


def test_unknown_op_is_not_loaded(batched):
    state, code, message = batched.states("unknown_op")[1]
    assert (state, code) == (END, 5) and message.startswith("Op type not registered 'OtherzLength'")


def test_warmup(batched):
    assert batched.states("warm") == {1: (AVAILABLE, 0, "")}
    state, code, message = batched.states("bad_warmup")[1]
    assert (state, code) == (END, 3) and "found bad:" in message
    state, code, message = batched.states("many_warmups")[1]
    assert (state, code) == (END, 3) and "exceeds the maximum (1000)" in message


def test_concurrent_requests_are_merged_and_padded(batched):
    futures = [batched.prediction.Predict.future(x_request(x)) for x in ([1], [2, 3])]
    first, second = [future.result().outputs for future in futures]
    # Four rows, as that is the next size allowed, of which three are answered.
    assert list(first["size"].int64_val) == [4] and list(second["size"].int64_val) == [4, 4]
    assert [float(value) for value in second["double_bytes"].string_val] == [4, 6]
    # A full batch does not wait.
    start = time.monotonic()
    assert list(batched.prediction.Predict(x_request([1] * 8)).outputs["size"].int64_val) == [8] * 8
    assert time.monotonic() - start < 0.25


def test_refusals_of_batching(batched):
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    expected = invalid, "Batching Run() input tensors must have equal 0th-dimension size"
    assert batched.refusal(predict_request(("a",), ("b", "c"))) == expected
    assert batched.refusal(x_request(1.0)) == (
        invalid,
        "Batching Run() input tensors must have at least one dimension",
    )
    expected = invalid, "Task size 9 is larger than maximum input batch size 8"
    assert batched.refusal(x_request([1] * 9)) == expected
    # One batch may be queued, in which a second one of this size has no place.
    futures = [batched.prediction.Predict.future(x_request([1] * 5)) for _ in range(2)]
    codes = {future.code() for future in futures}
    assert codes == {grpc.StatusCode.OK, grpc.StatusCode.UNAVAILABLE}
    (full,) = [future.details() for future in futures if future.code() != grpc.StatusCode.OK]
    assert full.startswith("The batch scheduling queue to which this task was submitted is full")
    # An error of a batch is everybody's.
    requests = [predict_request(("bad",), ("a",)), predict_request()]
    futures = [batched.prediction.Predict.future(request) for request in requests]
    assert [future.code() for future in futures] == [invalid, invalid]


def test_does_not_start(tmp_path):
    with pytest.raises(Refusal, match="Last entry in allowed_batch_sizes must match max_batch_size"):
        parse_parameters("max_batch_size { value: 8 } allowed_batch_sizes: 4")
    save(tmp_path)
    toy = f'name: "toy" base_path: "{tmp_path}" model_platform: "tensorflow" version_labels {{ key: "a" value: 1 }}'
    config = text_format.Parse(f"model_config_list {{ config {{ {toy} }} }}", ModelServerConfig())
    with pytest.raises(Refusal, match="Request to assign label to version 1 of model toy, which is not currently"):
        Models(config, None, False).poll()
