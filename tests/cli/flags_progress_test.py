"""The flags with which a long command records and serves its progress."""

import json
import re
import urllib.request

import pytest
from absl import flags
from commands import fail, succeed
from in_process import in_process

from keras_encdec.cli import client, decode, extract, generate, score, select, serve, train, tune
from keras_encdec.cli.command import Command
from keras_encdec.cli.flags import define_progress_flags
from keras_encdec.errors import InputError
from keras_encdec.runtime.progress_state import current_record

LONG = [client, decode, extract, generate, score, select, train, tune]


@pytest.fixture
def command(tmp_path):
    """A long command, whose work is a callable, and the file of its progress."""

    def run(work, *arguments):
        return in_process(Command("encdec-long", define_progress_flags, lambda values: work()), *arguments)

    run.file = tmp_path / "progress.json"
    return run


@pytest.mark.parametrize("module", LONG, ids=lambda module: module.__name__)
def test_every_long_command_has_them(module):
    values = module.COMMAND.flag_values()
    assert "progress_file" in values and "metrics_port" in values


def test_a_server_has_metrics_and_no_progress():
    values = serve.COMMAND.flag_values()
    assert "progress_file" not in values and "metrics_port" in values


def test_the_file_says_how_the_command_ended(command):
    def work():
        assert json.loads(command.file.read_text())["state"] == "running"

    succeed(command(work, f"--progress_file={command.file}"))
    assert json.loads(command.file.read_text())["state"] == "finished"

    def failing():
        raise InputError("found the disk full")

    fail(command(failing, f"--progress_file={command.file}"), 1, "found the disk full.")
    state = json.loads(command.file.read_text())
    assert (state["task"], state["state"], state["last_error"]) == ("encdec-long", "failed", "found the disk full.")


def test_standard_output_cannot_be_the_progress_file(command):
    fail(command(lambda: pytest.fail("the work began"), "--progress_file=-"), 2, "found --progress_file=-, expected a")


def test_the_file_must_not_be_a_file_of_the_work(tmp_path):
    (tmp_path / "progress.json").symlink_to("table")

    def define(values):
        define_progress_flags(values)
        flags.DEFINE_string("output", None, "", values)
        flags.DEFINE_multi_string("models", None, "", values)

    def refused(*arguments):
        command = Command("encdec-long", define, lambda values: pytest.fail("the work began"))
        done = in_process(command, f"--progress_file={tmp_path}/progress.json", *arguments)
        fail(done, 2, f"found one file for two purposes ({tmp_path}/table), expected a different file")

    refused(f"--output={tmp_path}/table")
    refused("--models=other", f"--models={tmp_path}/../{tmp_path.name}/table")


def test_without_the_flags_nothing_is_recorded(command):
    def work():
        assert current_record() is None

    succeed(command(work))


def test_metrics_are_served_while_the_command_works(command):
    pytest.importorskip("prometheus_client", reason="pip install '.[metrics]'")
    ports, pages = [], []

    def work():
        current_record().begin("lines")
        current_record().update(5, 10)
        with urllib.request.urlopen(f"http://localhost:{ports.pop()}/metrics", timeout=10) as answer:
            pages.append(answer.read().decode())

    import prometheus_client

    start = prometheus_client.start_http_server

    def started(*arguments, **named):
        server, thread = start(*arguments, **named)
        ports.append(server.server_port)
        return server, thread

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus_client, "start_http_server", started)
        done = succeed(command(work, "--metrics_port=0"))
    assert re.fullmatch(r"encdec-long: metrics at http://localhost:\d+/metrics\n", done.stderr)
    assert 'encdec_total{task="encdec-long"} 10.0' in pages[0]


def test_a_missing_library_is_one_sentence(command, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    fail(
        command(lambda: None, "--metrics_port=0"), 1, "needs prometheus_client", 'pip install "keras-encdec[metrics]".'
    )
    fail(command(lambda: None, "--metrics_port=70000"), 2, "--metrics_port=70000")


def test_steps_and_searches_are_counted(tmp_path):
    (tmp_path / "tsv").write_text("the cat\tle chat\nthe dog\tle chien\n")
    (tmp_path / "align").write_text("0-0 1-1\n" * 2)
    progress = f"--progress_file={tmp_path / 'progress.json'}"
    given = f"--tsv={tmp_path}/tsv", f"--alignment={tmp_path}/align", f"--output={tmp_path}/out", "--processes=1"
    succeed(in_process(extract.COMMAND, *given, progress))
    state = json.loads((tmp_path / "progress.json").read_text())
    assert (state["task"], state["state"]) == ("encdec-extract", "finished") and state["step"] > 1 and state["done"] > 1
    (tmp_path / "nbest").write_text("0 ||| a b ||| LM0= -1 ||| 9\n0 ||| a c ||| LM0= -2 ||| 8\n")
    (tmp_path / "ref").write_text("a c\n")
    given = f"--nbest={tmp_path}/nbest", f"--reference={tmp_path}/ref", f"--weights_out={tmp_path}/w", "--seeds=3"
    succeed(in_process(tune.COMMAND, *given, progress))
    state = json.loads((tmp_path / "progress.json").read_text())
    assert (state["task"], state["unit"], state["done"], state["total"]) == ("encdec-tune", "searches", 3, 3)


def test_malformed_lines_that_are_kept_count_as_errors(tmp_path):
    (tmp_path / "tsv").write_text("the cat\tle chat\nthe dog\n")
    (tmp_path / "align").write_text("0-0 1-1\n" * 2)
    progress = f"--progress_file={tmp_path / 'progress.json'}"
    given = f"--tsv={tmp_path}/tsv", f"--alignment={tmp_path}/align", f"--output={tmp_path}/out", "--processes=1"
    succeed(in_process(extract.COMMAND, *given, progress, "--on_error=keep"))
    state = json.loads((tmp_path / "progress.json").read_text())
    assert (state["state"], state["errors"]) == ("finished", 1) and "tsv, line 2: " in state["last_error"]
