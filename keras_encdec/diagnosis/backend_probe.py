"""Starts a backend in a process of its own, so that one that is broken or crashes is a finding and no more."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

DTYPES = ("float32", "bfloat16")
# An import takes seconds, but minutes where a slow disk is read for the first time.
_PATIENCE = 600.0
# A product is timed that takes at least this many seconds, or that of the largest matrices.
_LONG_ENOUGH, _SMALLEST, _LARGEST = 0.01, 512, 8192
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import main; main()"


@dataclasses.dataclass(frozen=True)
class BackendProbe:
    """What a backend did when it was started.

    Attributes:
        backend: str, such as "tensorflow".
        seconds: float. How long the import of Keras and the backend took; `None` if it failed.
        devices: tuple of str, the devices that the backend can use.
        gflops: dict from dtype to the speed of matrix products, in billions of operations per second.
        problems: tuple of str: sentences that say what is wrong, and what to do.
    """

    backend: str
    seconds: float | None
    devices: tuple[str, ...]
    gflops: dict[str, float]
    problems: tuple[str, ...]

    @property
    def title(self) -> str:
        """The heading."""
        return f"Computing with {self.backend}"

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what to show: labels and values."""
        yield "import", "FAILED" if self.seconds is None else f"{self.seconds:.1f} s"
        if self.devices:
            yield "devices", ", ".join(self.devices)
        for dtype, speed in self.gflops.items():
            times = speed / self.gflops["float32"]
            compared = "" if dtype == "float32" else f", {times:.2g} times the speed of float32"
            yield dtype, f"{speed:,.0f} GFLOP/s{compared}"


def probe_backend(backend: str) -> BackendProbe:
    """Starts a backend in another process and measures the speed of its matrix products.

    Args:
        backend: str, such as "tensorflow".

    Returns:
        BackendProbe, also if the backend cannot be imported, crashes, or does not end.
    """
    command = [sys.executable, "-c", _START.format(__name__), json.dumps(sys.path)]
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "KERAS_BACKEND": backend}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_PATIENCE)
        output, failure = done.stdout, _failure(done)
    except subprocess.TimeoutExpired as error:
        output, failure = error.stdout or b"", f"it did not end in {_PATIENCE / 60:.0f} minutes"
    except OSError as error:
        output, failure = b"", f"its process did not start: {error.strerror}"
    found: dict[str, Any] = {"seconds": None, "devices": (), "gflops": {}}
    for line in output[: output.rfind(b"\n") + 1].splitlines():  # a crash may cut off the last one
        name, value = json.loads(line)
        found |= {name: {**found["gflops"], **value} if name == "gflops" else value}
    problems = (_problem(backend, failure, found["seconds"] is not None),) if failure else ()
    return BackendProbe(backend, found["seconds"], tuple(found["devices"]), found["gflops"], problems)


def _failure(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"signal {-done.returncode} ended it"
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return (lines or [f"it ended with status {done.returncode}"])[-1].rstrip(".") if done.returncode else ""


def _problem(backend: str, failure: str, imported: bool) -> str:
    what = "works, but fails to compute" if imported else "cannot be imported"
    remedy = f"install it again (pip install --force-reinstall keras {backend}), or set KERAS_BACKEND to another one"
    return f"The backend {backend} {what} ({failure}); {remedy}."


def main() -> None:
    """Writes what is found of the backend to standard output, as lines of a name and a value in JSON."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print on standard output
    try:
        for result in _results():
            print(json.dumps(result), file=results, flush=True)
    except Exception as error:  # broken libraries raise many kinds of errors
        cause = error.__cause__ or error
        lines = str(cause).strip().splitlines() or [""]
        line = next((line for line in lines if re.match(r"\w*Error: ", line)), lines[0])
        sys.exit(line if line != lines[0] else f"{type(cause).__name__}: {line}")


def _results() -> Iterator[tuple[str, object]]:
    from keras_encdec.backend.devices import device_names
    from keras_encdec.backend.startup import import_keras

    start = time.perf_counter()
    import_keras()
    yield "seconds", time.perf_counter() - start
    yield "devices", device_names()
    for dtype in DTYPES:
        yield "gflops", {dtype: product_speed(dtype)}


def product_speed(dtype: str) -> float:
    """Measures the speed of matrix products on the backend in use, in billions of operations per second."""
    from keras_encdec.backend.low_precision import seconds_of_products

    size = _SMALLEST
    while (seconds := seconds_of_products([dtype], size)[dtype]) < _LONG_ENOUGH and size < _LARGEST:
        size *= 2
    return 2 * size**3 / seconds / 1e9
