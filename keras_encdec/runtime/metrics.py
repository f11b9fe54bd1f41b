"""Serves the progress of a task, and the requests that it sends or answers, as metrics for Prometheus."""

import contextlib
import dataclasses
import functools
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from keras_encdec.errors import InputError
from keras_encdec.runtime.imports import check_extra
from keras_encdec.runtime.progress_state import ProgressRecord

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

# Upper bounds of the histogram's buckets, in seconds.
_LATENCIES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@contextlib.contextmanager
def served_metrics(task: str, port: int, record: ProgressRecord | None = None) -> Iterator[int]:
    """Serves metrics at http://HOST:PORT/metrics during the `with` block, on all addresses of this machine.

    A line on standard error says so.

    Args:
        task: str, such as "encdec-score".
        port: int. 0 for any free port.
        record: ProgressRecord, whose state is served. Defaults to `None`: a task without an end, such as a server.

    Yields:
        the port.

    Raises:
        ImportError: if prometheus_client is not installed. The error names the extra to install.
        InputError: if the port is taken.
    """
    check_extra("metrics", "--metrics_port")
    from prometheus_client import CollectorRegistry, start_http_server

    registry, lock = CollectorRegistry(), threading.Lock()
    made = functools.cache(lambda: _serve_requests(registry, task))

    def requests() -> Callable[[float, bool], None]:
        with lock:  # the first requests of several threads may end at the same time
            return made()

    if record is None:
        requests()  # a server shows 0 requests before the first
    else:
        _serve_progress(registry, task, record)
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        found = f"found port {port} unusable ({error.strerror})"
        raise InputError(found, "expected a free port for the metrics", "give another --metrics_port") from error
    _current.append(requests)
    try:
        print(f"{task}: metrics at http://localhost:{server.server_port}/metrics", file=sys.stderr, flush=True)
        yield server.server_port
    finally:
        _current.remove(requests)
        server.shutdown()
        server.server_close()
        thread.join()


def _serve_progress(registry: "CollectorRegistry", task: str, record: ProgressRecord) -> None:
    from prometheus_client import Gauge
    from prometheus_client.core import CounterMetricFamily
    from prometheus_client.registry import Collector

    def gauge(name: str, text: str, value: Callable[[], float | None]) -> None:
        def shown() -> float:
            now = value()
            return math.nan if now is None else now

        Gauge(name, text, ["task"], registry=registry).labels(task).set_function(shown)

    class Errors(Collector):
        def collect(self) -> Iterator[CounterMetricFamily]:
            errors = CounterMetricFamily(
                "encdec_errors", "Errors, including those after which the task continues.", labels=["task"]
            )
            errors.add_metric([task], record.state.errors)
            yield errors

    gauge("encdec_done", "Units that are done, such as lines or updates.", lambda: record.state.done)
    gauge("encdec_total", "All units, or an estimate; NaN if not known.", lambda: record.state.total)
    gauge("encdec_rate", "Units per second.", lambda: record.state.rate)
    gauge("encdec_eta_seconds", "Estimate of the seconds left; NaN if not known.", lambda: record.state.eta_seconds)
    registry.register(Errors())


def _serve_requests(registry: "CollectorRegistry", task: str) -> Callable[[float, bool], None]:
    """Adds the metrics of requests; returns a function that counts a request by its seconds and whether it failed."""
    from prometheus_client import Counter, Histogram

    # With their labels from the start, so that 0 is shown before the first request.
    failures = Counter("encdec_request_errors", "Requests that failed.", ["task"], registry=registry).labels(task)
    seconds = Histogram(
        "encdec_request_seconds", "Duration of requests.", ["task"], registry=registry, buckets=_LATENCIES
    ).labels(task)

    def count(duration: float, failed: bool) -> None:
        seconds.observe(duration)
        failures.inc(failed)

    return count


# For each task in this process, the function that makes its metrics of requests at the first request: most tasks send
# none.
_current: list[Callable[[], Callable[[float, bool], None]]] = []


@dataclasses.dataclass
class RequestOutcome:
    """Whether a request failed. Set `failed` for a failure without an exception."""

    failed: bool = False


@contextlib.contextmanager
def measured_request() -> Iterator[RequestOutcome]:
    """Measures the request in the `with` block if metrics are served. An exception counts as a failure."""
    outcome, start = RequestOutcome(), time.perf_counter()
    try:
        yield outcome
    except BaseException:
        outcome.failed = True
        raise
    finally:
        if _current:
            _current[-1]()(time.perf_counter() - start, outcome.failed)
