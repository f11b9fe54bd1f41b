"""The peer of TensorFlow Serving with several models, their versions and labels, warm-up, and batching."""

import contextlib
import time

import grpc
import pytest
from google.protobuf import text_format
from serving_peer_batching import parse_parameters
from serving_peer_models import Models
from serving_peer_status import Refusal
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig
from toy_serving import AVAILABLE, END, Peer, predict_request, regress_request, save, wait, x_request

BATCHING = """
max_batch_size { value: 8 } batch_timeout_micros { value: 300000 } max_enqueued_batches { value: 1 }
num_batch_threads { value: 2 } allowed_batch_sizes: 1 allowed_batch_sizes: 4 allowed_batch_sizes: 8
"""


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
