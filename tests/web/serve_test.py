"""The command that serves the page, in this process."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time

import httpx2
import pytest
from commands import fail
from free_ports import free_ports
from in_process import in_process

from keras_encdec.cli.serve import COMMAND
from keras_encdec.configuration import ConfigurationError
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.web import Explorer, ServeOptions, serve
from keras_encdec.web.serve import server_of


@pytest.mark.usefixtures("signals_obeyed", "uncompiled")
@pytest.mark.parametrize(("number", "host"), [(signal.SIGINT, "127.0.0.1"), (signal.SIGTERM, "0.0.0.0")])
def test_the_command_serves_until_it_is_interrupted(model_dirs, tmp_path, monkeypatch, number, host):
    if host == "0.0.0.0":  # once is enough
        monkeypatch.setattr(Explorer, "preparations", lambda self: iter([lambda: None]))
    (tmp_path / "text").write_text("le chat la\nla maison été\n")
    [port], answers, ended = free_ports(1), [], threading.Event()

    def ask():
        with httpx2.Client(trust_env=False, timeout=60) as client:
            while not ended.wait(0.05):
                try:
                    answers.append(client.get(f"http://localhost:{port}/api/model"))
                    answers.append(client.get(f"http://127.0.0.1:{port}/", headers={"Host": "other"}))
                    url = f"http://127.0.0.1:{port}/api/translate"
                    answers.append(client.post(url, json={"source": "le"}))
                    break
                except httpx2.TransportError:
                    answers.clear()
        if not ended.is_set():
            os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask)
    asking.start()
    done = in_process(
        COMMAND,
        f"--model_dir={model_dirs / 'forward'}",
        f"--host={host}",
        f"--port={port}",
        f"--input={tmp_path / 'text'}",
    )
    ended.set()
    asking.join()
    assert done.returncode == 128 + number, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "Compiling." and lines[-1] == "encdec-serve: the server has ended."
    assert lines[-2] == f"Open http://{host}:{port} in a browser; Ctrl-C ends the server."
    warned = [line for line in lines if line.startswith("warning: everyone who can reach")]
    assert len(warned) == (host == "0.0.0.0") and len(lines) == 3 + len(warned)
    facts, page, translated = answers
    assert facts.json()["examples"] == ["le chat la", "la maison été"] and translated.json()["targets"]
    assert page.status_code == 200 and "server" not in page.headers


@pytest.mark.usefixtures("signals_obeyed", "uncompiled")
@pytest.mark.parametrize(("seconds", "status"), [(5, 200), (0.2, 503)], ids=["in time", "too late"])
def test_requests_that_run_when_a_signal_comes_are_answered(model_dirs, monkeypatch, caplog, seconds, status):
    [port], answers, running = free_ports(1), [], threading.Event()

    def slow(self, source, target):
        running.set()
        time.sleep(1)
        return {"done": True}

    monkeypatch.setattr(Explorer, "preparations", lambda self: iter([lambda: None]))
    monkeypatch.setattr(Explorer, "score", slow)
    monkeypatch.setattr(sys.modules[serve.__module__], "STOP_SECONDS", seconds)

    def ask():
        with httpx2.Client(trust_env=False, timeout=60) as client:
            while not running.is_set():
                try:
                    url = f"http://127.0.0.1:{port}/api/score"
                    answers.append(client.post(url, json={"source": "le", "target": "the"}))
                except httpx2.ConnectError:
                    time.sleep(0.05)

    def stop():
        assert running.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)

    threads = [threading.Thread(target=target) for target in (ask, stop)]
    for thread in threads:
        thread.start()
    done = in_process(COMMAND, f"--model_dir={model_dirs / 'forward'}", f"--port={port}")
    for thread in threads:
        thread.join()
    [answer] = answers
    assert (done.returncode, answer.status_code) == (143, status), done.stderr
    assert answer.json() == ({"done": True} if status == 200 else {"error": "The server is stopping."})
    assert not caplog.records


def test_errors_of_the_application_are_logged_and_ended_requests_are_not(caplog):
    server_of(lambda scope, receive, send: None)
    logger = logging.getLogger("uvicorn.error")
    logger.error("Exception in ASGI application", exc_info=ValueError("a fault"))
    logger.error("Cancel %s running task(s), timeout graceful shutdown exceeded", 3)
    assert [record.exc_info[0] for record in caplog.records] == [ValueError]


def test_flags_are_passed_on(monkeypatch):
    calls = []
    monkeypatch.setattr(sys.modules[serve.__module__], "serve", lambda say, **named: calls.append(named))
    monkeypatch.setattr("keras_encdec.cli.serve.check_paths", lambda *arguments: None)
    monkeypatch.setattr(ServeOptions, "listen", lambda self: socket.socket())
    flags = ["--model_dir=libreoffice_en_fr", "--host=h", "--port=1", "--phrase_table=t", "--encoding=latin-1"]
    assert COMMAND.main([*flags, "--max_words=9", "--requests_per_minute=8"]) == 0
    options = ServeOptions(host="h", port=1, max_words=9, requests_per_minute=8, encoding="latin-1")
    assert calls == [{"model_dir": "libreoffice_en_fr", "phrase_table": "t", "input": None, "options": options}]


def test_without_flags_it_serves_the_model_of_the_package_with_the_phrases_of_its_table(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ServeOptions, "listen", lambda self: socket.socket())
    calls = []
    monkeypatch.setattr(sys.modules[serve.__module__], "serve", lambda say, **named: calls.append(named))
    done = in_process(COMMAND)
    assert (
        done.stderr == "Serving libreoffice_en_fr, the model that comes with the package; --model_dir names another.\n"
    )
    assert in_process(COMMAND, "--model_dir=libreoffice_en_fr").stderr == ""
    expected = {"model_dir": "libreoffice_en_fr", "phrase_table": libreoffice_en_fr().phrase_table, "input": None}
    assert calls == [{**expected, "options": ServeOptions()}] * 2
    (tmp_path / "text").write_text("open the file\n")
    assert in_process(COMMAND, "--input=text").returncode == 0 and calls[-1]["phrase_table"] is None


def test_unusable_arguments_are_errors(model_dirs, tmp_path, monkeypatch):
    fail(in_process(COMMAND, "--model_dir=m", "--port=70000"), 2, "port")
    fail(in_process(COMMAND, "--model_dir=m", "--max_words=0"), 2, "max_words")
    fail(in_process(COMMAND, "--model_dir=/none", "--port=0"), 1, "/none: found no such directory")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        model = f"--model_dir={model_dirs / 'forward'}"
        fail(in_process(COMMAND, model, f"--port={port}"), 1, f"port {port}", "in use", "another --port")
    done = in_process(COMMAND, model, "--port=0", "--host=no.such.host.invalid")
    fail(done, 1, "cannot listen on no.such.host.invalid, port 0 (")
    assert "while attempting" not in done.stderr
    with pytest.raises(ConfigurationError, match="found an empty host, expected a name or an address"):
        ServeOptions(host="")
    two = f"--phrase_table={__file__}", f"--input={__file__}"
    fail(in_process(COMMAND, model, *two), 2, "--phrase_table", "--input")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else object())
    fail(in_process(COMMAND, "--model_dir=m"), 1, "needs uvicorn", 'pip install "keras-encdec[web]"')


def test_in_an_event_loop_as_in_a_notebook_the_error_says_to_use_a_thread(model_dirs):
    async def cell():
        serve(model_dirs / "forward", port=0)

    with pytest.raises(RuntimeError, match="found a running event loop, as in a notebook, .* call serve in a thread"):
        asyncio.run(cell())


def test_a_language_model_is_refused(tmp_path):
    from toy_models import TARGET_WORDS, save_model

    path = save_model(tmp_path / "lm", [], TARGET_WORDS, language_model=True)
    fail(in_process(COMMAND, f"--model_dir={path}", "--port=0"), 1, "found a language model")
