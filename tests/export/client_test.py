"""The client against a server that is made up."""

import gzip
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
from commands import fail, succeed
from fake_prediction_server import (
    TOKENIZE,
    Failure,
    FakeModel,
    serving,
    token_scores,
    unknown_count,
)

from keras_encdec.export.retries import Retries
from keras_encdec.export.server_error import ServerError
from keras_encdec.formats import model_words, pair_format
from keras_encdec.scoring.record_scorer import RecordScorer

# Lines of every form that Moses reads, and the words that the model is to see.
LINES = {
    "le chat ||| the cat ||| 0.5 0.25 ||| 0-0 1-1 ||| 3 4 2 ||| |||": ("le chat", "the cat"),
    "la|||u the|||.5 1.5E-05|||0-0": ("la", "u the"),
    "l&apos; été ||| &apos;s  unsaid uncle ||| 1 1 |||  ||| 1 1 1": ("l' été", "'s unsaid uncle"),
    "&quot; &#124; R&amp;D &amp;lt; ||| &quot; &#91;X&#93; & &eacute; ||| 1 1": ('" | R&D &lt;', '" [X] & &eacute;'),
    "le|DET|le chat|NOM|chat ||| the|DT cat|NN ||| 0.5 0.5 ||| 0-0": ("le chat", "the cat"),
    "||| the ||| 0.5 0.5": ("", "the"),
    "  a\u00a0b   c  ||| ||| 0.5 0.5": ("a\u00a0b c", ""),
}
TSV = {
    "le chat\tthe cat": ("le chat", "the cat"),
    "l&apos;  été\t&apos;s u|ncle dog\tkept": ("l' été", "'s u|ncle dog"),
    "\tthe u": ("", "the u"),
    "le\tu dog": ("le", "u dog"),  # as many tokens and as many unknown as in the pair before
    "a\u00a0b\t": ("a\u00a0b", ""),
    "&#124;\t&amp;lt;\t7\t": ("|", "&lt;"),
}


class DirectScorer:
    """The fake model without a server."""

    def all_words(self, pairs, factored=False):
        return [tuple(model_words(side, factored) for side in pair) for pair in pairs]

    def columns(self, pairs, names):
        tokens = [token_scores(*pair) for pair in pairs]
        columns = {
            "log_prob": [float(row.sum()) for row in tokens],
            "token_log_probs": [row.astype(np.float64) for row in tokens],
            "unknown_count": [unknown_count(target) for _, target in pairs],
        }
        return [columns[name] for name in names]


def expected(path, format="phrase_table", unknown=False, tokens=False, **arguments):
    """What encdec-score would write for the fake model's scores."""
    known = pair_format(format)
    scorer = RecordScorer(known, [DirectScorer()], unknown_count=unknown, token_scores=tokens)
    with known.open_reader(path, **arguments) as reader:
        return b"\n".join(scorer(list(reader))[0]) + b"\n" * reader.lines.ended_with_newline


@pytest.fixture
def command(client_command):
    return client_command


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture
def servers(model):
    with serving(model) as addresses:
        yield addresses


@pytest.fixture(params=["grpc", "rest"])
def client(request, command, servers):
    """The command with the address of the server, by either protocol."""

    def run(*flags, start=command):
        return start(f"--server={servers[request.param]}", *flags)

    return run


@pytest.fixture
def out(tmp_path):
    """A folder for nothing but what the command writes."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def many(tmp_path):
    """A table of 100 lines, each of other words."""
    path = tmp_path / "many"
    path.write_text("".join(f"s{i} ||| t{i} ||| 0.5\n" for i in range(1, 101)))
    return path


def write(path, data):
    path.write_bytes(gzip.compress(data, 1) if path.name.endswith(".gz") else data)
    return path


def read_words(model):
    """The pairs of words that the model has read, each side joined by spaces."""
    pairs = (zip(sources, targets, strict=True) for _, sources, targets, _ in model.requests)
    return sorted(tuple(" ".join(model.read(side)) for side in pair) for some in pairs for pair in some)


@pytest.mark.parametrize(("end", "last"), [("\n", "\n"), ("\r\n", "")])
def test_a_table_gets_the_scores_of_the_server(client, model, tmp_path, out, end, last):
    table = write(tmp_path / "table.gz", (end.join(LINES) + last).encode())
    flags = [f"--input={table}", f"--output={out}/scored.gz", "--batch_size=3"]
    done = succeed(client(*flags))
    assert re.fullmatch(rf"7 lines in \d+\.\d s, [\d,]+ lines/s: {out}/scored.gz\n", done.stderr) and not done.stdout
    assert gzip.decompress((out / "scored.gz").read_bytes()) == expected(table)
    assert read_words(model) == sorted(LINES.values())
    assert sorted(len(sources) for _, sources, _, _ in model.requests) == [1, 3, 3]
    succeed(client(*flags, "--unknown_count"))
    assert gzip.decompress((out / "scored.gz").read_bytes()) == expected(table, unknown=True)
    assert len(model.requests) == 6, "one call a batch, whatever is asked for"


@pytest.mark.parametrize("columns", [(), ("unknown",), ("tokens",), ("unknown", "tokens")], ids=" ".join)
def test_pairs_get_the_scores_of_the_server(client, model, tmp_path, out, columns):
    pairs = write(tmp_path / "pairs", "\r\n".join(TSV).encode())
    flags = ["--unknown_count"] * ("unknown" in columns) + ["--token_scores"] * ("tokens" in columns)
    succeed(client(f"--input={pairs}", f"--output={out}/tsv", "--format=tsv", "--batch_size=2", *flags))
    assert (out / "tsv").read_bytes() == expected(pairs, "tsv", **dict.fromkeys(columns, True))
    assert read_words(model) == sorted(TSV.values()) and len(model.requests) == 3


def test_raw_text_is_sent_as_it_stands(client, model, tmp_path, out):
    model.raw, model.signatures = True, {**model.signatures, **TOKENIZE}
    pairs = write(tmp_path / "pairs", b"L'\xc3\xa9t\xc3\xa9  &amp; |x|\tthe, \xff!\n")
    succeed(client(f"--input={pairs}", f"--output={out}/tsv", "--format=tsv", "--encoding=utf-8"))
    assert model.requests.pop()[1:3] == (["L'été  &amp; |x|".encode()], [b"the, ?!"])
    table = write(tmp_path / "table", b"l&apos;|X &amp;lt; ||| the| ||| 1\n")
    succeed(client(f"--input={table}", f"--output={out}/table"))
    assert model.requests.pop()[1:3] == ([b"l' &lt;"], [b"the"])


def test_requests_run_side_by_side_and_lines_stay_in_order(client, model, many, out):
    model.delay, model.gather = (lambda: random.uniform(0, 0.02)), 3
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=3", "--in_flight=4"))
    assert (out / "table").read_bytes() == expected(many)
    assert 3 <= model.most_at_once <= 4
    assert sorted(len(sources) for _, sources, _, _ in model.requests) == [1] + [3] * 33


def test_malformed_lines_stop_or_pass(client, model, tmp_path, out):
    lines = [b"le ||| the ||| 0.5", b"le ||| the", b"le ||| caf\xe9 ||| 0.5 0.5", b"la ||| the ||| 1"]
    table = write(tmp_path / "table", b"\n".join(lines))
    flags = [f"--input={table}", f"--output={out}/table", "--batch_size=2"]
    fail(client(*flags), 1, f"{table}, line 2: found 2 fields")
    assert os.listdir(out) == []
    done = succeed(client(*flags, "--on_error=keep", "--unknown_count"))
    assert "2 malformed lines were written with a neutral score." in done.stderr
    assert (out / "table").read_bytes() == expected(table, unknown=True, on_error="keep")


def test_a_declared_encoding_is_sent_as_utf8_and_kept(client, model, tmp_path, out):
    table = write(tmp_path / "table", b"\xe9t\xe9 ||| summer ||| 1 ||| \x81\n")
    succeed(client(f"--input={table}", f"--output={out}/table", "--encoding=latin-1"))
    assert (out / "table").read_bytes() == expected(table, encoding="latin-1")
    assert read_words(model) == [("été", "summer")]


def test_bytes_that_no_text_has_are_the_servers_to_refuse(client, tmp_path, out):
    table = write(tmp_path / "table", b"a ||| b ||| 1\na\xff ||| b ||| 1\n")
    flags = [f"--input={table}", f"--output={out}/table", "--encoding=utf-8"]
    fail(client(*flags), 1, f"{table}, line 2: found a pair that the server refuses (found a source that is not UTF-8")
    done = succeed(client(*flags, "--on_error=keep"))
    assert "1 lines that the server refused were written with a neutral score." in done.stderr
    assert (out / "table").read_bytes().splitlines()[1] == b"a\xff ||| b ||| 1 1"


def test_one_version_scores_a_file_that_which_is_asked_for_or_the_latest(client, model, many, out):
    """By its number: a label may be moved, and a new version published, before the file is at its end."""
    model.versions = {1: "AVAILABLE", 2: "AVAILABLE", 3: "LOADING"}
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=100"]
    for extra, version in {"--version=1": 1, "--label=stable": 1, "--in_flight=2": 2}.items():
        model.requests.clear()
        succeed(client(*flags, extra))
        assert {request[3] for request in model.requests} == {(version, None)}
        os.unlink(out / "table")
    for extra, name in {
        "--version=9": "model 'encdec', version 9",
        "--label=new": "model 'encdec', label 'new'",
        "--model_name=other": "model 'other'",
    }.items():
        fail(client(*flags, extra), 1, f"found no {name} on the server at ", "Servable not found", "check --model_name")
        assert os.listdir(out) == []


def test_a_server_that_comes_back_is_waited_for(client, model, many, out):
    model.failures = [Failure("UNAVAILABLE", "try again")] * 7
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=10", "--in_flight=3"))
    assert (out / "table").read_bytes() == expected(many)
    assert len(model.requests) == 10 + 7


def test_patience_ends_with_the_line_that_was_waited_for(client, model, many, out):
    model.unavailable = b"s45"
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=10", "--patience=0.3"]
    fail(client(*flags), 1, f"{many}, line 41: found the server at ", "unavailable (The batch", "--patience")
    assert os.listdir(out) == []
    assert sum(b"s45" in sources for _, sources, _, _ in model.requests) > 1


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_server_that_is_not_there_is_told(command, many, out, scheme):
    with socket.socket() as closed:
        closed.bind(("localhost", 0))
        address = f"{scheme}localhost:{closed.getsockname()[1]}"
        flags = [f"--server={address}", "--patience=0.2"]
        done = command(*flags, f"--input={many}", f"--output={out}/table")
        fail(done, 1, f"found the server at {address} unavailable", "Connection refused", "start it, check --server")
        fail(command(*flags[:1], "--health"), 1, f"found the server at {address} unavailable")
    assert os.listdir(out) == []


def test_a_call_has_a_deadline(client, model, many, out):
    model.held.clear()
    flags = [f"--input={many}", f"--output={out}/table", "--deadline=0.4", "--batch_size=60"]
    sentence = "within 0.4 s; give a longer --deadline or a smaller --batch_size."
    fail(client(*flags), 1, f"{many}, line 1: found no answer from the server at ", sentence)
    assert os.listdir(out) == []


def test_a_refused_pair_is_found(client, model, many, out):
    model.refused = b"s77"
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=30", "--unknown_count"]
    refusal = "found a pair that the server refuses (found a source of 1 tokens, expected at most 0);"
    fail(client(*flags), 1, f"{many}, line 77: {refusal}", "or give --on_error=keep")
    assert os.listdir(out) == []
    done = succeed(client(*flags, "--on_error=keep"))
    assert "1 lines that the server refused were written with a neutral score." in done.stderr
    lines = expected(many, unknown=True).split(b"\n")
    lines[76] = b"s77 ||| t77 ||| 0.5 1 1"
    assert (out / "table").read_bytes() == b"\n".join(lines)


def test_pairs_that_were_refused_for_others_are_healed(client, model, many, out):
    # Ten pairs, five, two and one, and that twice again, as when a server merges them with a bad one.
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
def test_a_refusal_that_is_about_no_pair_of_the_request_is_not_believed(client, model, many, out, refusal):
    """However often it comes: the server has merged the request with another, which is at fault."""
    model.failures = [refusal] * 9
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=50", "--in_flight=2"))
    assert (out / "table").read_bytes() == expected(many)
    assert {len(sources) for _, sources, _, _ in model.requests} <= {50, len(many.read_bytes().splitlines()) % 50}


def test_other_errors_are_told(client, model, many, out):
    flags = [f"--input={many}", f"--output={out}/table"]
    model.failures = [Failure("INTERNAL", "out of memory\n\t [[{{node a}}]]")]
    fail(client(*flags), 1, f"{many}, line ", "of the server at ", "(out of memory), expected an answer")
    del model.signatures["score_tokens"]
    fail(client(*flags), 1, "found a model with the signatures encode, score on the server", "expected score_tokens")
    assert os.listdir(out) == []


def test_health_tells_the_states_of_versions(client, model):
    assert succeed(client("--health")).stdout == "version 1: AVAILABLE\n"
    model.versions = {1: "AVAILABLE", 2: "LOADING"}
    assert succeed(client("--health")).stdout == "version 1: AVAILABLE\nversion 2: LOADING\n"
    done = client("--health", "--version=2")
    assert done.stdout == "version 2: LOADING\n"
    fail(done, 1, "found no version AVAILABLE of the model 'encdec', version 2 on the server at ")
    assert succeed(client("--health", "--label=stable")).stdout == "version 1: AVAILABLE\n"
    fail(client("--health", "--label=new"), 1, "found no model 'encdec', label 'new'")
    fail(client("--health", "--version=3"), 1, "found no model 'encdec', version 3")


def test_scores_that_are_no_numbers_are_an_error(client, model, many, out):
    model.outputs["log_prob"] = np.float32("nan")
    flags = [f"--input={many}", f"--output={out}/table"]
    fail(client(*flags), 1, f"{many}, line 1: found the error INTERNAL", "log_prob that is not a number")
    model.outputs["log_prob"] = []
    fail(client(*flags), 1, f"{many}, line 1: found the error INTERNAL", "(0 values of log_prob for 64 pairs)")
    assert os.listdir(out) == []


def test_metadata_tells_the_signatures(client, model):
    model.signatures["__saved_model_init_op"] = {}, {}
    lines = [line.split() for line in succeed(client("--metadata")).stdout.splitlines()]
    assert [line[0] for line in lines if len(line) == 1] == ["encode", "score", "score_tokens"]
    assert ["input", "source", "string", "(?)"] in lines
    assert ["output", "summary", "float", "(?,", "8)"] in lines
    assert ["output", "token_log_probs", "float", "(?,", "?)"] in lines


def test_wrong_use_is_told(command, many, out):
    flags = [f"--input={many}", f"--output={out}/table"]
    for given, sentence in {
        (): "found no --input, expected one to score, or --health or --metadata.",
        (flags[0],): "found no --output, expected one to score",
        ("--health", "--metadata"): "found --health and --metadata, expected one of them.",
        ("--health", flags[1]): "found --output with --health, which scores nothing.",
        ("--metadata", "--batch_size=3"): "found --batch_size with --metadata, which scores nothing.",
        (*flags, "--version=1", "--label=x"): "found --version and --label, expected one of them.",
        (*flags, "--token_scores"): "found --token_scores with --format=phrase_table",
        (*flags, f"--output={many}"): "found one file for two purposes",
        (*flags, "--server=localhost"): "found --server=localhost, expected host:port",
        (*flags, "--in_flight=0"): "in_flight",
    }.items():
        fail(command(*given), 2, sentence, "encdec-client --help lists the flags.")
    assert os.listdir(out) == []


@pytest.mark.parametrize("module", ["grpc", "tensorflow_serving", "tensorflow", "requests"])
def test_what_is_not_installed_is_told(module):
    server = "http://localhost:1" if module == "requests" else "localhost:1"
    program = f"import sys; sys.modules[{module!r}] = None; import keras_encdec.cli.client as c; c.COMMAND.run()"
    command = [sys.executable, "-c", program, f"--server={server}", "--health"]
    done = subprocess.run(command, capture_output=True, text=True)
    fail(done, 1, module, "pip install 'keras-encdec[serving]'.")


def test_nothing_heavy_is_imported(servers, many, out):
    for server in servers.values():
        program = (
            "import atexit, sys; atexit.register(lambda: print(sys.modules.keys() & {'keras', 'tensorflow', 'jax'}));"
            "import keras_encdec.cli.client as c; c.COMMAND.run()"
        )
        flags = [f"--server={server}", f"--input={many}", f"--output={out}/table"]
        done = subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, text=True)
        assert succeed(done).stdout == "set()\n"


def installed(*flags):
    script = pathlib.Path(sys.executable).with_name("encdec-client")
    return subprocess.Popen([script, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_client_that_is_stopped_leaves_nothing(client, model, many, out, number):
    model.held.clear()
    flags = [f"--input={many}", f"--output={out}/table", "--batch_size=10", "--deadline=600"]
    process = client(*flags, start=installed)
    assert model.holding.wait(60)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert errors == "encdec-client: interrupted; no unfinished output is left.\n"
    assert os.listdir(out) == []


def test_pauses_between_calls_grow_until_patience_is_over(monkeypatch):
    clock, pauses = [0.0], []
    monkeypatch.setattr("keras_encdec.export.retries.time.monotonic", lambda: clock[0])
    retries = Retries(30)

    def wait(seconds):
        pauses.append(seconds)
        clock[0] += seconds

    monkeypatch.setattr(retries._closed, "wait", wait)

    def unavailable(code):
        raise ServerError(code, "")

    with pytest.raises(ServerError, match="UNAVAILABLE"):
        retries(unavailable, "UNAVAILABLE")
    assert clock[0] == pytest.approx(30), "it was there until the end"
    assert 0.05 <= pauses[0] <= 0.1 and 0.4 <= pauses[3] <= 0.8 and max(pauses) <= 5
    doubled = [seconds / (0.1 * 2**i) for i, seconds in enumerate(pauses[:6])]
    assert len(set(doubled)) == 6, "no jitter"
    pauses.clear()
    with pytest.raises(ServerError, match="INTERNAL"):
        retries(unavailable, "INTERNAL")
    assert pauses == []
