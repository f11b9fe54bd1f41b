"""The client when the server is unavailable, refuses requests or fails, and when the client itself is stopped."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import fake_prediction_server
import numpy as np
import pytest
from commands import fail, succeed
from fake_prediction_server import Failure
from fake_scores import expected
from plain_or_gzipped import write

from keras_encdec.export.client.connection import connect
from keras_encdec.export.client.model_server import ModelName, ServerError
from keras_encdec.export.client.served_scorer import ServedScorer


def test_bytes_that_are_not_utf8_are_refused_by_the_server(client, tmp_path, out):
    table = write(tmp_path / "table", b"a ||| b ||| 1\na\xff ||| b ||| 1\n")
    flags = [f"--input={table}", f"--output={out}/table", "--encoding=utf-8"]
    fail(client(*flags), 1, f"{table}, line 2: found a pair that the server refuses (found a source that is not UTF-8")
    done = succeed(client(*flags, "--on_error=keep"))
    assert "1 line that the server refused got a neutral score." in done.stderr
    assert (out / "table").read_bytes().splitlines()[1] == b"a\xff ||| b ||| 1 1"


def test_calls_are_repeated_until_the_server_is_back(client, model, many, out):
    model.failures = [Failure("UNAVAILABLE", "try again")] * 7
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=10", "--in_flight=3"))
    assert (out / "table").read_bytes() == expected(many)
    assert len(model.requests) == 10 + 7


SERVER = """
import sys, time
import keras_encdec.export.client.grpc_client  # loads the stubs without TensorFlow, whose import takes seconds
from fake_prediction_server import FakeModel, serving
model = FakeModel()
model.delay = lambda: 0.05
with serving(model, *map(int, sys.argv[1:])):
    print("ready", flush=True)
    time.sleep(600)
"""


@contextlib.contextmanager
def killed_at_the_end(ports):
    """A server in a separate process, which is killed in the end, so that its connections break."""
    command = [sys.executable, "-c", SERVER, *map(str, ports)]
    helpers = str(pathlib.Path(fake_prediction_server.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": helpers}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_the_client_waits_for_a_server_that_is_killed_and_restarted(client_command, many, out, protocol):
    with contextlib.ExitStack() as sockets:
        listening = [sockets.enter_context(socket.create_server(("localhost", 0))) for _ in range(2)]
        ports = [each.getsockname()[1] for each in listening]
    address = {"grpc": f"localhost:{ports[0]}", "rest": f"http://localhost:{ports[1]}"}[protocol]
    flags = [f"--server={address}", f"--input={many}", f"--output={out}/table", "--batch_size=2", "--in_flight=2"]
    with contextlib.ExitStack() as servers, ThreadPoolExecutor(1) as executor:
        with killed_at_the_end(ports):
            score = executor.submit(client_command, *flags)
            with pytest.raises(TimeoutError):
                score.result(timeout=1)  # 25 rounds of 0.05 s take longer
        servers.enter_context(killed_at_the_end(ports))
        succeed(score.result())
    assert (out / "table").read_bytes() == expected(many)


def test_the_error_after_the_patience_names_the_line(client, model, many, out):
    model.unavailable = b"s45"
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=10", "--patience=0.3"]
    fail(client(*flags), 1, f"{many}, line 41: found the server at ", "unavailable (The batch", "--patience")
    assert os.listdir(out) == []
    assert sum(b"s45" in sources for _, sources, _, _ in model.requests) > 1


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_server_that_does_not_answer_is_reported(client_command, many, out, scheme):
    with socket.socket() as closed:
        closed.bind(("localhost", 0))
        address = f"{scheme}localhost:{closed.getsockname()[1]}"
        flags = [f"--server={address}", "--patience=0.2"]
        done = client_command(*flags, f"--input={many}", f"--output={out}/table")
        waiting, done.stderr = done.stderr.split("\n", 1)
        assert waiting.endswith(f"warning: the server at {address} is not available; trying again for up to 0.2 s.")
        fail(done, 1, f"found the server at {address} unavailable", "Connection refused", "start it, check --server")
        fail(client_command(*flags[:1], "--health"), 1, f"found the server at {address} unavailable")
    assert os.listdir(out) == []


def test_a_call_has_a_deadline(client, model, many, out):
    model.held.clear()
    flags = [f"--input={many}", f"--output={out}/table", "--deadline=0.4", "--batch_size=60"]
    sentence = "within 0.4 s; give a longer --deadline or a smaller --batch_size."
    fail(client(*flags), 1, f"{many}, line 1: found no answer from the server at ", sentence)
    assert os.listdir(out) == []


def test_the_error_names_the_line_of_a_refused_pair(client, model, many, out):
    model.refused = b"s77"
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=30", "--unknown_count"]
    refusal = "found a pair that the server refuses (found a source of 1 tokens, expected at most 0);"
    fail(client(*flags), 1, f"{many}, line 77: {refusal}", "or give --on_error=keep")
    assert os.listdir(out) == []
    done = succeed(client(*flags, "--on_error=keep"))
    assert "1 line that the server refused got a neutral score." in done.stderr
    lines = expected(many, unknown=True).split(b"\n")
    lines[76] = b"s77 ||| t77 ||| 0.5 1 1"
    assert (out / "table").read_bytes() == b"\n".join(lines)


def test_pairs_refused_together_with_a_bad_pair_are_sent_again(client, model, many, out):
    # Requests of ten, five, two pairs and one pair are refused, the last three times, as if merged with a bad one.
    model.failures = [Failure("INVALID_ARGUMENT", "somebody else's")] * 6
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=10", "--in_flight=1"))
    assert (out / "table").read_bytes() == expected(many)
    assert [len(sources) for _, sources, _, _ in model.requests][:7] == [10, 5, 2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "refusal",
    [
        Failure("INVALID_ARGUMENT", "assertion failed: [found a source of] [300] [tokens, expected at most 256]"),
        Failure("INVALID_ARGUMENT", "assertion failed: [found a target of] [99] [bytes, expected at most 64]"),
        Failure("INVALID_ARGUMENT", "assertion failed: [found a source that is not UTF-8, expected UTF-8]"),
        Failure("INVALID_ARGUMENT", "assertion failed: [found sources and targets:] [2] [1]"),
        Failure("FAILED_PRECONDITION", "Tensors with name 'source:0' from different tasks have different shapes"),
        Failure("INTERNAL", "Tensor concat operation failed: tensors have different data types"),
    ],
)
def test_a_refusal_that_matches_no_pair_of_the_request_is_retried(client, model, many, out, refusal, monkeypatch):
    """The server has merged the request with another, which is at fault, however often that happens."""
    monkeypatch.setattr("keras_encdec.export.client.connection._FIRST_PAUSE", 0.01)
    model.failures = [refusal] * 9
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=50", "--in_flight=2"))
    assert (out / "table").read_bytes() == expected(many)
    assert {len(sources) for _, sources, _, _ in model.requests} <= {50, len(many.read_bytes().splitlines()) % 50}


def test_other_errors_are_reported(client, model, many, out):
    flags = [f"--input={many}", f"--output={out}/table"]
    model.failures = [Failure("INTERNAL", "out of memory\n\t [[{{node a}}]]")]
    fail(client(*flags), 1, f"{many}, line ", "from the server at ", "(out of memory), expected an answer")
    del model.signatures["score_tokens"]
    fail(client(*flags), 1, "found a model with the signatures encode, score on the server", "expected score_tokens")
    assert os.listdir(out) == []


def test_scores_and_counts_that_cannot_be_are_an_error(client, model, many, out):
    model.outputs["log_prob"] = np.float32("nan")
    flags = [f"--input={many}", f"--output={out}/table"]
    fail(client(*flags), 1, f"{many}, line 1: found the error INTERNAL", "log_prob that is not a number")
    model.outputs["log_prob"] = np.float32(2.5)
    fail(client(*flags), 1, f"{many}, line 1: found the error INTERNAL", "(a log_prob of 2.5, more than 0)")
    model.outputs["log_prob"] = []
    fail(client(*flags), 1, f"{many}, line 1: found the error INTERNAL", "(0 values of log_prob for 64 pairs)")
    model.outputs = {"unknown_count": -1}
    message = "(an unknown_count that is not a number of words)"
    fail(client(*flags, "--unknown_count"), 1, f"{many}, line 1: found the error INTERNAL", message)
    assert os.listdir(out) == []


@pytest.mark.parametrize("shape", [[1], [1 << 60], [1 << 40, 1 << 40]])
@pytest.mark.parametrize("token_log_probs", [False, True])
def test_values_that_do_not_fit_their_shape_are_an_error(servers, model, shape, token_log_probs):
    model.shapes = {"log_prob": shape, "token_log_probs": shape}
    with contextlib.closing(connect(servers["grpc"], ModelName("encdec"), 10)) as server:
        with pytest.raises(ServerError, match="INTERNAL: found an output whose values do not fit its shape"):
            ServedScorer(server, 0).score_pairs([(["a"], ["b"]), (["c"], ["d"])], token_log_probs=token_log_probs)


def test_signatures_that_cannot_be_read_are_an_error(servers, model):
    model.damage = b"\xff"
    with contextlib.closing(connect(servers["grpc"], ModelName("encdec"), 10)) as server:
        with pytest.raises(ServerError, match="INTERNAL: found signatures that cannot be read"):
            server.metadata()


def installed(*flags):
    script = pathlib.Path(sys.executable).with_name("encdec-client")
    return subprocess.Popen([script, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("client", "number"), [("grpc", signal.SIGTERM), ("rest", signal.SIGINT)], indirect=["client"])
def test_an_interrupted_client_leaves_no_output(client, model, many, out, number):
    model.held.clear()
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=10", "--deadline=600"]
    process = client(*flags, start=installed)
    assert model.holding.wait(60)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert errors == "encdec-client: interrupted; no unfinished output is left.\n"
    assert os.listdir(out) == []
