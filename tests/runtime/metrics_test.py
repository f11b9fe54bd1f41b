"""Metrics for Prometheus, read from the port at which they are served."""

import contextlib
import re
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_encdec.errors import InputError
from keras_encdec.runtime import metrics
from keras_encdec.runtime.metrics import measured_request, served_metrics
from keras_encdec.runtime.progress_state import ProgressRecord

pytest.importorskip("prometheus_client", reason="pip install '.[metrics]'")


def scraped(port):
    """The samples at a port: name to value; all have the same task."""
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return dict(re.findall(r"^(encdec_\w+)\{task=\"encdec-score\"\} (\S+)$", text, re.MULTILINE))


def test_the_progress_of_a_task_is_served(capsys):
    with ProgressRecord("encdec-score") as record:
        with served_metrics("encdec-score", 0, record) as port:
            assert capsys.readouterr().err == f"encdec-score: metrics at http://localhost:{port}/metrics\n"
            found = scraped(port)
            assert (found["encdec_done"], found["encdec_total"], found["encdec_eta_seconds"]) == ("0.0", "NaN", "NaN")
            assert "encdec_request_seconds_count" not in found
            record.begin("lines")
            record.update(30, share=0.5)
            record.count_errors(1, "line 3")
            found = scraped(port)
            assert (found["encdec_done"], found["encdec_total"], found["encdec_errors_total"]) == (
                "30.0",
                "60.0",
                "1.0",
            )
            assert float(found["encdec_rate"]) > 0 and float(found["encdec_eta_seconds"]) >= 0
        with pytest.raises(OSError):
            scraped(port)


def test_requests_are_counted_and_measured():
    with served_metrics("encdec-score", 0) as port:
        assert scraped(port)["encdec_request_seconds_count"] == "0.0"
        with measured_request():
            pass
        with measured_request() as outcome:
            outcome.failed = True
        with contextlib.suppress(ValueError), measured_request():
            raise ValueError
        found = scraped(port)
        assert (found["encdec_request_seconds_count"], found["encdec_request_errors_total"]) == ("3.0", "2.0")
    with measured_request():
        pass


def test_the_first_requests_of_several_threads_are_all_counted(monkeypatch):
    serve_requests = metrics._serve_requests

    def served_slowly(registry, task):
        time.sleep(0.1)
        return serve_requests(registry, task)

    def request(number):
        with measured_request():
            together.wait()

    monkeypatch.setattr(metrics, "_serve_requests", served_slowly)
    together = threading.Barrier(3)
    with ProgressRecord("encdec-score") as record, served_metrics("encdec-score", 0, record) as port:
        with ThreadPoolExecutor(3) as executor:
            list(executor.map(request, range(3)))
        assert scraped(port)["encdec_request_seconds_count"] == "3.0"


def test_a_taken_port_is_an_error():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"found port {port} unusable .*give another --metrics"):
            with served_metrics("encdec-score", port):
                pass


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ImportError, match=r'--metrics_port needs prometheus_client.*pip install "keras-encdec\[metrics'
    ):
        with served_metrics("encdec-score", 0):
            pass
