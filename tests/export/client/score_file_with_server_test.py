"""The client against a fake server."""

import gzip
import json
import os
import random
import re
import subprocess
import sys
import threading

import pytest
from commands import fail, succeed
from fake_prediction_server import TOKENIZE, Failure
from fake_scores import expected
from plain_or_gzipped import write

from keras_encdec.errors import InputError
from keras_encdec.export import measure_server

# Lines of every form that Moses reads, and the words as the model reads them.
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
    "le\tu dog": ("le", "u dog"),  # as many tokens and unknown words as in the pair before
    "a\u00a0b\t": ("a\u00a0b", ""),
    "&#124;\t&amp;lt;\t7\t": ("|", "&lt;"),
}


def read_words(model):
    """The pairs of words that the model has read, each side joined by spaces."""
    pairs = (zip(sources, targets, strict=True) for _, sources, targets, _ in model.requests)
    return sorted(tuple(" ".join(model.read(side)) for side in pair) for request in pairs for pair in request)


@pytest.mark.parametrize(("end", "last"), [("\n", "\n"), ("\r\n", "")])
def test_a_table_gets_the_scores_of_the_server(client, model, tmp_path, out, end, last):
    table = write(tmp_path / "table.gz", (end.join(LINES) + last).encode())
    flags = [f"--input={table}", f"--output={out}/scored.gz", "--batch_size=3"]
    done = succeed(client(*flags))
    assert re.fullmatch(rf"7 lines in \d+\.\d s, [\d,.]+ lines/s: {out}/scored.gz\n", done.stderr) and not done.stdout
    assert gzip.decompress((out / "scored.gz").read_bytes()) == expected(table)
    assert read_words(model) == sorted(LINES.values())
    assert sorted(len(sources) for _, sources, _, _ in model.requests) == [1, 3, 3]
    succeed(client(*flags, "--unknown_count"))
    assert gzip.decompress((out / "scored.gz").read_bytes()) == expected(table, unknown=True)
    assert len(model.requests) == 6, "one call a batch, whatever is asked for"


def test_the_requests_to_the_server_are_measured(client, tmp_path, out, monkeypatch):
    prometheus_client = pytest.importorskip("prometheus_client", reason="pip install '.[metrics]'")
    registries = []

    def start(port, registry):
        registries.append(registry)
        return started(port, registry=registry)

    started = prometheus_client.start_http_server
    monkeypatch.setattr(prometheus_client, "start_http_server", start)
    table = write(tmp_path / "table", "\n".join(LINES).encode())
    flags = f"--input={table}", f"--output={out}/scored", "--batch_size=3", "--metrics_port=0"
    done = client(*flags, f"--progress_file={tmp_path / 'progress.json'}")
    assert done.returncode == 0 and done.stderr.startswith("encdec-client: metrics at http://localhost:")
    label = {"task": "encdec-client"}
    assert registries[0].get_sample_value("encdec_request_seconds_count", label) == 3
    assert registries[0].get_sample_value("encdec_request_errors_total", label) == 0
    assert registries[0].get_sample_value("encdec_done", label) == 7
    assert json.loads((tmp_path / "progress.json").read_text())["state"] == "finished"


@pytest.mark.parametrize("columns", [(), ("unknown",), ("tokens",), ("unknown", "tokens")], ids=" ".join)
def test_a_tsv_file_gets_the_scores_of_the_server(client, model, tmp_path, out, columns):
    pairs = write(tmp_path / "pairs", "\r\n".join(TSV).encode())
    flags = ["--unknown_count"] * ("unknown" in columns) + ["--token_scores"] * ("tokens" in columns)
    succeed(client(f"--input={pairs}", f"--output={out}/tsv", "--format=tsv", "--batch_size=2", *flags))
    assert (out / "tsv").read_bytes() == expected(pairs, "tsv", **dict.fromkeys(columns, True))
    assert read_words(model) == sorted(TSV.values()) and len(model.requests) == 3


def test_raw_text_is_sent_unchanged(client, model, tmp_path, out):
    model.raw, model.signatures = True, {**model.signatures, **TOKENIZE}
    pairs = write(tmp_path / "pairs", b"L'\xc3\xa9t\xc3\xa9  &amp; |x|\tthe, \xff!\n")
    succeed(client(f"--input={pairs}", f"--output={out}/tsv", "--format=tsv", "--encoding=utf-8"))
    assert model.requests.pop()[1:3] == (["L'été  &amp; |x|".encode()], [b"the, ?!"])
    table = write(tmp_path / "table", b"l&apos;|X &amp;lt; ||| the| ||| 1\n")
    succeed(client(f"--input={table}", f"--output={out}/table"))
    assert model.requests.pop()[1:3] == ([b"l' &lt;"], [b"the"])


def test_requests_run_concurrently_and_lines_stay_in_order(client, model, many, out):
    model.delay, model.gather = (lambda: random.uniform(0, 0.02)), 3
    succeed(client(f"--input={many}", f"--output={out}/table", "--batch_size=3", "--in_flight=4"))
    assert (out / "table").read_bytes() == expected(many)
    assert 3 <= model.most_at_once <= 4
    assert sorted(len(sources) for _, sources, _, _ in model.requests) == [1] + [3] * 33


def test_malformed_lines_stop_the_command_or_are_kept(client, model, tmp_path, out):
    lines = [b"le ||| the ||| 0.5", b"le ||| the", b"le ||| caf\xe9 ||| 0.5 0.5", b"la ||| the ||| 1"]
    table = write(tmp_path / "table", b"\n".join(lines))
    flags = [f"--input={table}", f"--output={out}/table", "--batch_size=2"]
    fail(client(*flags), 1, f"{table}, line 2: found 2 fields")
    assert os.listdir(out) == []
    done = succeed(client(*flags, "--on_error=keep", "--unknown_count"))
    assert "2 malformed lines got a neutral score; a line without a field" in done.stderr
    assert (out / "table").read_bytes() == expected(table, unknown=True, on_error="keep")


def test_a_declared_encoding_is_sent_as_utf8_and_kept(client, model, tmp_path, out):
    table = write(tmp_path / "table", b"\xe9t\xe9 ||| summer ||| 1 ||| \x81\n")
    succeed(client(f"--input={table}", f"--output={out}/table", "--encoding=latin-1"))
    assert (out / "table").read_bytes() == expected(table, encoding="latin-1")
    assert read_words(model) == [("été", "summer")]


def test_one_version_scores_a_whole_file(client, model, many, out):
    """A label may move, or a new version be published, before the whole file is scored."""
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


def test_health_lists_the_states_of_versions(client, model):
    assert succeed(client("--health")).stdout == "version 1: AVAILABLE\n"
    model.versions = {1: "AVAILABLE", 2: "LOADING"}
    assert succeed(client("--health")).stdout == "version 1: AVAILABLE\nversion 2: LOADING\n"
    done = client("--health", "--version=2")
    assert done.stdout == "version 2: LOADING\n"
    fail(done, 1, "found no AVAILABLE version of the model 'encdec', version 2 on the server at ")
    assert succeed(client("--health", "--label=stable")).stdout == "version 1: AVAILABLE\n"
    fail(client("--health", "--label=new"), 1, "found no model 'encdec', label 'new'")
    fail(client("--health", "--version=3"), 1, "found no model 'encdec', version 3")


def test_metadata_lists_the_signatures(client, model):
    model.signatures["__saved_model_init_op"] = {}, {}
    lines = [line.split() for line in succeed(client("--metadata")).stdout.splitlines()]
    assert [line[0] for line in lines if len(line) == 1] == ["encode", "score", "score_tokens"]
    assert ["input", "source", "string", "(?)"] in lines
    assert ["output", "summary", "float", "(?,", "8)"] in lines
    assert ["output", "token_log_probs", "float", "(?,", "?)"] in lines


def test_a_server_is_measured(client, model, many):
    """Failed requests are counted and not repeated; one request of each thread comes before and does not count."""
    flags = "--bench", f"--input={many}", "--batch_size=64", "--in_flight=3", "--seconds=0.2"
    line = succeed(client(*flags)).stdout
    numbers = re.fullmatch(
        r"([\d,]+) requests of 64 pairs in (\d\.\d) s, 3 at a time: ([\d.,]+) requests/s, [\d,]+ pairs/s; "
        r"p50 ([\d.]+) ms, p90 ([\d.]+) ms, p99 ([\d.]+) ms; failed requests: none\n",
        line,
    )
    assert numbers, line
    sent = [len(sources) for _, sources, _, _ in model.requests]
    assert sent == [64] * (int(numbers[1].replace(",", "")) + 3)
    assert float(numbers[4]) <= float(numbers[5]) <= float(numbers[6])
    assert {source for _, sources, _, _ in model.requests for source in sources} >= {b"s1", b"s100"}


def test_failures_of_a_measurement(servers, model, many):
    model.unavailable = b"s77"  # in every second request
    result = measure_server(servers["grpc"], many, 0.2, in_flight=1, batch_size=50)
    assert set(result.failures) == {"UNAVAILABLE"}
    assert abs(result.failures["UNAVAILABLE"] - len(result.latencies)) <= 1
    assert f"failed requests: {result.failures['UNAVAILABLE']:,} UNAVAILABLE" in str(result)
    model.refused = b"s1"
    refusal = f"{many}: found a pair that the server refuses .*; repair or remove such pairs, or give --on_error=keep"
    with pytest.raises(InputError, match=refusal):
        measure_server(servers["grpc"], many, 0.2)
    kept = measure_server(servers["grpc"], many, 0.2, on_error="keep", in_flight=1, batch_size=50)
    assert kept.failures["INVALID_ARGUMENT"] > 0 and "INVALID_ARGUMENT" in str(kept)
    model.failures = [Failure("INVALID_ARGUMENT", "Task size 300 is larger than maximum input batch size 256")]
    with pytest.raises(InputError, match=r"larger than maximum input batch size 256\); give a smaller --batch_size"):
        measure_server(servers["grpc"], many, 0.2, in_flight=1)
    many.write_text("malformed\n")
    with pytest.raises(InputError, match="found no pairs"):
        measure_server(servers["grpc"], many, 0.2, on_error="keep")


def test_an_interrupted_measurement_ends(servers, many, monkeypatch):
    class InterruptedBarrier(threading.Barrier):
        def wait(self, timeout=None):
            if threading.current_thread() is caller:
                raise KeyboardInterrupt
            return super().wait(timeout)

    def measure():
        try:
            measure_server(servers["grpc"], many, 0.2, in_flight=2)
        except KeyboardInterrupt as error:
            errors.append(error)

    errors = []
    caller = threading.Thread(target=measure, daemon=True)
    monkeypatch.setattr(threading, "Barrier", InterruptedBarrier)
    caller.start()
    caller.join(30)
    assert errors and not caller.is_alive()


def test_wrong_use_is_explained(client_command, many, out):
    flags = [f"--input={many}", f"--output={out}/table"]
    for given, sentence in {
        (): "found no --input, expected one to score, or --health or --metadata.",
        (flags[0],): "found no --output, expected one to score",
        ("--health", "--metadata"): "found --health and --metadata, expected one of them.",
        ("--health", flags[1]): "found --output with --health, which scores nothing.",
        ("--metadata", "--batch_size=3"): "found --batch_size with --metadata, which scores nothing.",
        ("--health", "--bench"): "found --health and --bench, expected one of them.",
        ("--bench",): "found no --input, expected one to score",
        ("--bench", *flags): "found --output with --bench, which writes nothing.",
        (*flags, "--seconds=3"): "found --seconds without --bench, expected both.",
        (*flags, "--version=1", "--label=x"): "found --version and --label, expected one of them.",
        (*flags, "--token_scores"): "found --token_scores with --format=phrase_table",
        (flags[0], f"--output={many}"): "found one file for two purposes",
        (*flags, "--label="): "found an empty --label, expected a value.",
        ("--health", "--model_name="): "found an empty --model_name, expected a value.",
        (*flags, "--server=localhost"): "found --server=localhost, expected host:port",
        ("--health", "--server="): "found an empty --server, expected a value.",
        (*flags, "--in_flight=0"): "in_flight",
    }.items():
        fail(client_command(*given), 2, sentence, "encdec-client --help lists the flags.")
    assert os.listdir(out) == []


@pytest.mark.parametrize("module", ["grpc", "tensorflow_serving", "tensorflow", "requests", "tenacity"])
def test_the_error_for_a_missing_library_names_the_extra(module):
    server = "http://localhost:1" if module == "requests" else "localhost:1"
    program = f"import sys; sys.modules[{module!r}] = None; import keras_encdec.cli.client as c; c.COMMAND.run()"
    command = [sys.executable, "-c", program, f"--server={server}", "--health"]
    done = subprocess.run(command, capture_output=True, text=True)
    fail(done, 1, module, 'pip install "keras-encdec[serving]".')


def test_neither_keras_nor_tensorflow_is_imported(servers, many, out):
    for server in servers.values():
        program = (
            "import atexit, sys; atexit.register(lambda: print(sys.modules.keys() & {'keras', 'tensorflow', 'jax'}));"
            "import keras_encdec.cli.client as c; c.COMMAND.run()"
        )
        flags = [f"--server={server}", f"--input={many}", f"--output={out}/table"]
        done = subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, text=True)
        assert succeed(done).stdout == "set()\n"
