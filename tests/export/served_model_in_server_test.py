"""An exported model as a server serves it: scores, batching, refusals, versions.

The server is a peer of TensorFlow Serving made for these tests, and TensorFlow Serving itself where its
program, tensorflow_model_server, is installed; TFS_ADDRESS names one that runs and serves a model "encdec".
"""

import concurrent.futures
import os
import shutil
import subprocess
import time

import numpy as np
import pytest
import requests
import tensorflow as tf
import toy_models
from commands import fail, succeed
from free_ports import free_ports
from grpc import StatusCode
from serving_calls import Calls, refusal
from serving_process import ServingProcess

from keras_encdec.export import export_model, move_stable_label, score_file_with_server
from keras_encdec.scoring import TextScorer

WORDS = [f"w{i}" for i in range(30)]


class StockServer:
    """TensorFlow Serving itself, with the files that the exporter wrote."""

    def __init__(self, folder, batching):
        ports = free_ports(2)
        command = [
            shutil.which("tensorflow_model_server"),
            f"--port={ports[0]}",
            f"--rest_api_port={ports[1]}",
            f"--model_config_file={folder / 'models.config'}",
            "--allow_version_labels_for_unavailable_models=true",
        ]
        if batching:
            command += ["--enable_batching", f"--batching_parameters_file={folder / 'batching_parameters.txt'}"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.grpc_address, self.rest_address = f"localhost:{ports[0]}", f"http://localhost:{ports[1]}"
        for _ in range(600):
            time.sleep(0.1)
            try:
                Calls(self.grpc_address).metadata()
                return
            except Exception:  # any answer, while the server starts
                assert self.alive()

    def alive(self):
        return self._process.poll() is None

    def rss(self):
        with open(f"/proc/{self._process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def close(self):
        self._process.terminate()
        self._process.wait()


STOCK = ["stock", "stock, batching"] if shutil.which("tensorflow_model_server") else []


@pytest.fixture(scope="module", params=["peer", "peer, batching", *STOCK])
def server(request, scores_only, peer):
    """A running server of the exported model."""
    kind, *batching = request.param.split(", ")
    running = StockServer(scores_only, batching) if kind == "stock" else peer(bool(batching))
    running.batching = bool(batching)
    yield running
    if kind == "stock":
        running.close()


@pytest.fixture
def calls(server):
    return Calls(server.grpc_address)


@pytest.fixture(scope="module")
def scored(model_dir):
    """Pairs of mixed lengths, and their scores in Python."""
    random = np.random.default_rng(0)

    def phrase():
        return " ".join(random.choice([*WORDS, "other"], random.integers(0, 12)))

    pairs = [(phrase(), phrase()) for _ in range(200)]
    scorer = TextScorer(model_dir)
    return pairs, scorer.score([scorer.words(*pair) for pair in pairs])


def score(calls, pairs, **keywords):
    return calls.predict(source=[s for s, _ in pairs], target=[t for _, t in pairs], **keywords)["log_prob"]


def test_scores_equal_those_in_python_alone_and_together_in_any_order(calls, scored):
    pairs, expected = scored
    np.testing.assert_allclose(score(calls, pairs), expected, atol=1e-5)
    for i in range(12):
        np.testing.assert_allclose(score(calls, pairs[i : i + 1], signature="score"), expected[i : i + 1], atol=1e-5)
    order = np.random.default_rng(1).permutation(len(pairs))
    np.testing.assert_allclose(score(calls, [pairs[i] for i in order]), expected[order], atol=1e-5)


def test_scores_equal_those_in_python_when_requests_are_merged(calls, scored):
    pairs, expected = scored
    random = np.random.default_rng(2)
    choices = [random.integers(0, len(pairs), random.integers(1, 9)) for _ in range(300)]
    with concurrent.futures.ThreadPoolExecutor(16) as executor:
        for chosen, found in zip(
            choices, executor.map(lambda chosen: score(calls, [pairs[i] for i in chosen]), choices), strict=True
        ):
            np.testing.assert_allclose(found, expected[chosen], atol=1e-5)


def test_every_signature_answers(calls, scored):
    pairs, expected = [scored[0][:9], scored[1][:9]]
    sides = {"source": [s for s, _ in pairs], "target": [t for _, t in pairs]}
    found = calls.predict("score_tokens", **sides)
    np.testing.assert_allclose(found["token_log_probs"].sum(axis=1), expected, atol=1e-5)
    assert found["token_count"].tolist() == [len(target.split()) + 1 for _, target in pairs]
    assert found["unknown_count"].tolist() == [target.split().count("other") for _, target in pairs]
    examples = [{"source": source, "target": target} for source, target in pairs]
    np.testing.assert_allclose(calls.regress(examples), expected, atol=1e-5)
    assert calls.predict("encode", source=["w1", "w2 w3"])["summary"].shape == (2, 8)
    assert {"serving_default", "score", "score_tokens", "encode", "regress"} <= set(calls.metadata())


def test_rest_answers_by_rows_and_by_columns(server, scored):
    pairs, expected = [scored[0][:5], scored[1][:5]]
    url = f"{server.rest_address}/v1/models/encdec:predict"
    rows = {"instances": [{"source": source, "target": target} for source, target in pairs]}
    found = requests.post(url, json=rows, timeout=60).json()["predictions"]
    np.testing.assert_allclose([row["log_prob"] for row in found], expected, atol=1e-5)
    columns = {"signature_name": "score", "inputs": {"source": [s for s, _ in pairs], "target": [t for _, t in pairs]}}
    found = requests.post(url, json=columns, timeout=60).json()["outputs"]
    np.testing.assert_allclose(found["log_prob"], expected, atol=1e-5)


TEN_MEGABYTES = "w1 " * (10 << 20) + "w1"
MALFORMED = {
    "another type": {"source": tf.make_tensor_proto([1.0]), "target": tf.make_tensor_proto([1.0])},
    "another rank": {"source": tf.make_tensor_proto([["w1"]]), "target": tf.make_tensor_proto([["w1"]])},
    "no batch": {"source": tf.make_tensor_proto("w1"), "target": tf.make_tensor_proto("w1")},
    "batches that differ": {"source": ["w1", "w2"], "target": ["w1"]},
    "no target": {"source": ["w1"]},
    "an input too many": {"source": ["w1"], "target": ["w1"], "weight": ["w1"]},
    "bytes that are not UTF-8": {"source": [b"w\xff"], "target": ["w1"]},
    "many tokens": {"source": ["w1"], "target": ["w1 " * 257]},
    "a huge string": {"source": [TEN_MEGABYTES], "target": ["w1"]},
    "a huge word": {"source": ["w1"], "target": ["w" * (10 << 20)]},
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_request_is_refused(server, calls, scored, what):
    code, message = refusal(calls.predict, **MALFORMED[what])
    assert code == StatusCode.INVALID_ARGUMENT and message
    limits = {"many tokens": "at most 256", "a huge string": "at most 16384", "bytes that are not UTF-8": "UTF-8"}
    assert limits.get(what, "") in message
    assert server.alive()
    np.testing.assert_allclose(score(calls, scored[0][:3]), scored[1][:3], atol=1e-5)


def test_unknown_models_and_versions_are_not_found(calls):
    inputs = {"source": ["w1"], "target": ["w1"]}
    assert refusal(calls.predict, spec={"name": "other"}, **inputs)[0] == StatusCode.NOT_FOUND
    assert refusal(calls.predict, spec={"version": 9}, **inputs)[0] == StatusCode.NOT_FOUND
    assert refusal(calls.predict, "no_signature", **inputs)[0] in (
        StatusCode.FAILED_PRECONDITION,
        StatusCode.INVALID_ARGUMENT,
    )


def test_the_server_survives_a_thousand_malformed_requests(server, calls, scored):
    kinds = [inputs for what, inputs in MALFORMED.items() if "huge" not in what]
    bad = [lambda inputs=inputs: refusal(calls.predict, **inputs) for inputs in kinds]
    huge = [lambda what=what: refusal(calls.predict, **MALFORMED[what]) for what in MALFORMED if "huge" in what]
    with concurrent.futures.ThreadPoolExecutor(8) as executor:

        def send(number):
            codes = executor.map(lambda i: (huge[i % 2] if i % 200 == 0 else bad[i % len(bad)])()[0], range(number))
            # Two merged requests may fail because their shapes differ.
            merged = {StatusCode.FAILED_PRECONDITION, StatusCode.INTERNAL} if server.batching else set()
            assert set(codes) - merged == {StatusCode.INVALID_ARGUMENT}

        send(200)
        growth = []
        while not growth or growth[-1] >= 64 << 20 and len(growth) < 3:  # a leak grows each time, a pool does not
            before = server.rss()
            send(1000)
            growth.append(server.rss() - before)
    assert server.alive() and growth[-1] < 64 << 20, growth
    np.testing.assert_allclose(score(calls, scored[0]), scored[1], atol=1e-5)


def test_pairs_that_a_server_merges_with_bad_ones_are_scored(server, scored, tmp_path):
    """One of two clients sends pairs that are refused; all pairs of the other are scored."""
    long = "w1 " * 300
    lines = {
        "good": [f"{source}\t{target}\n" for source, target in scored[0]] * 3,
        "mixed": [f"{long if i % 7 == 0 else source}\t{target}\n" for i, (source, target) in enumerate(scored[0])] * 3,
    }

    def run(name):
        (tmp_path / name).write_text("".join(lines[name]))
        paths = tmp_path / name, tmp_path / f"{name}.out"
        summary = score_file_with_server(
            server.grpc_address, *paths, format="tsv", batch_size=4, in_flight=16, on_error="keep"
        )
        return summary.refused, paths[1].read_text().splitlines()

    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        (refused, good), (refused_mixed, mixed) = executor.map(run, lines)
    assert (refused, refused_mixed) == (0, 87)
    expected = [f"{score:.3f}" for score in scored[1]] * 3
    found = [line.split("\t")[2] for line in good]
    np.testing.assert_allclose([float(x) for x in found], [float(x) for x in expected], atol=1e-3)
    for i, line in enumerate(mixed):
        value = float(line.split("\t")[2])
        assert value == pytest.approx(0 if (i % len(scored[0])) % 7 == 0 else scored[1][i % len(scored[0])], abs=1e-4)


def test_a_new_version_is_published_and_rolled_back(scores_only, client_command, no_search, tmp_path):
    """Labels move while the server runs, and no request fails meanwhile."""
    folder = tmp_path / "models"
    other = toy_models.save_model(tmp_path / "other", WORDS, WORDS, seed=1)
    pair = {"source": ["w1 w2"], "target": ["w3"]}
    shutil.copytree(scores_only, folder)
    move_stable_label(folder, "encdec", 1)  # writes the path of the copied folder
    flags = {"model_config_file": folder / "models.config", "allow_version_labels_for_unavailable_models": True}
    with ServingProcess(
        **flags, rest_api_port=0, model_config_file_poll_wait_seconds=0.1, file_system_poll_wait_seconds=0.1
    ) as running:
        calls = Calls(running.grpc_address)

        def scores(label):
            return float(calls.predict(spec={"version_label": label}, **pair)["log_prob"][0])

        def becomes(label, expected):
            deadline = time.monotonic() + 60
            while scores(label) != expected:
                assert time.monotonic() < deadline
                time.sleep(0.02)

        first = scores("stable")
        assert scores("canary") == first
        export_model(other, folder)
        second = float(TextScorer(other).score([(["w1", "w2"], ["w3"])])[0])
        deadline = time.monotonic() + 60
        while scores("canary") == first:
            assert scores("stable") == first and time.monotonic() < deadline
            time.sleep(0.02)
        second = pytest.approx(second, abs=1e-5)
        assert scores("canary") == second and scores("stable") == first
        (tmp_path / "pairs").write_text("w1 w2\tw3\n")

        def written(*flags, server=running.grpc_address):
            flags = f"--server={server}", "--format=tsv", f"--input={tmp_path / 'pairs'}", *flags
            succeed(client_command(*flags, f"--output={tmp_path / 'scored'}"))
            return float((tmp_path / "scored").read_text().split("\t")[2])

        for server in (running.grpc_address, running.rest_address):
            assert written("--label=stable", server=server) == pytest.approx(first, abs=1e-5)
            assert written("--label=canary", server=server) == written(server=server) == second
            fail(client_command(f"--server={server}", "--label=new", "--health"), 1, "label 'new'", "check --label")
        move_stable_label(folder, "encdec", 2)
        becomes("stable", second)
        move_stable_label(folder, "encdec", 1)
        becomes("stable", first)


@pytest.mark.skipif("TFS_ADDRESS" not in os.environ, reason="TFS_ADDRESS names no server")
def test_the_named_server_scores_pairs_alone_as_together():
    calls = Calls(os.environ["TFS_ADDRESS"])
    pairs = [("a", "b"), ("a b c d e f", "b"), ("", ""), ("b", "a a a a a a a")]
    together = score(calls, pairs)
    for pair, expected in zip(pairs, together, strict=True):
        assert score(calls, [pair])[0] == pytest.approx(expected, abs=1e-5)
    assert refusal(calls.predict, source=["a", "b"], target=["a"])[0] == StatusCode.INVALID_ARGUMENT
