"""The peer of TensorFlow Serving, against which other tests check exports."""

import base64
import contextlib
import shutil

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    model_management_pb2,
    predict_pb2,
)
from toy_serving import AVAILABLE, END, Peer, predict_request, regress_request, save, wait, x_request


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

    send(1000)
    plain.refusal(predict_request(("x" * 50_000_000 + "bad", "bad"), ("a", "a")))
    assert plain.log_prob(source=("x" * 10_000_000,), target=("",)) == [-10_000_001]
    before = plain.process.rss()
    send(5000)
    assert plain.process.alive() and plain.process.rss() < before + 2**25
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
