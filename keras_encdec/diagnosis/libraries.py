"""The versions of the libraries that the package and its extras need, and what the backends do when they start.

Each backend starts in a separate process. If it is broken or crashes, that is reported, and the diagnosis continues.
"""

import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement

from keras_encdec import __version__
from keras_encdec.backend.startup import backend_in_settings, settings_file
from keras_encdec.errors import InputError

BACKENDS = ("tensorflow", "jax", "torch")
# Extras for those who change the package.
_CONTRIBUTORS = {"dev", "docs"}


@dataclasses.dataclass(frozen=True)
class Library:
    """A library that the package needs, or that one of its extras installs.

    Attributes:
        name: str, as `pip` calls it.
        required: str. The versions that the package works with, such as ">=3.15,<3.16".
        extras: tuple of str, the extras that install it; empty if the package itself needs it.
        version: str, or `None` if it is not installed.
        fits: bool. Whether the installed version is one of those required.
    """

    name: str
    required: str
    extras: tuple[str, ...]
    version: str | None
    fits: bool

    @property
    def problem(self) -> str | None:
        """One sentence, or `None` if the library is as it should be. A missing extra is not a problem."""
        if self.fits or (self.version is None and self.extras):
            return None
        found = "is not installed" if self.version is None else f"is {self.version}, expected {self.required}"
        wanted = f'"{self.name}{self.required}"'
        return f"{self.name} {found}; install it: pip install {wanted}."

    def __str__(self) -> str:
        extras = " or ".join(f'"keras-encdec[{extra}]"' for extra in self.extras)
        if self.version is None:
            return f"not found; pip install {extras}" if extras else "NOT FOUND, but needed"
        found = self.version if self.fits else f"{self.version}, BUT EXPECTED {self.required}"
        return f"{found} (extra {', '.join(self.extras)})" if self.extras else found


@dataclasses.dataclass(frozen=True)
class Versions:
    """The versions of the package, of Python, and of the libraries.

    Attributes:
        package: str. Version of keras-encdec.
        python: str. Version of Python.
        system: str. The operating system.
        libraries: tuple of Library.
        installed: bool. Whether `pip` has installed the package. Otherwise its libraries are not known.
    """

    package: str
    python: str
    system: str
    libraries: tuple[Library, ...]
    installed: bool

    title = "Versions"

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each problem."""
        found = [library.problem for library in self.libraries]
        if not self.installed:
            found.append("keras-encdec is not installed, so the libraries that it needs are not known; pip install it.")
        return tuple(problem for problem in found if problem)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what to show: labels and values."""
        yield "keras-encdec", self.package
        yield "Python", f"{self.python} on {self.system}"
        yield from ((library.name, str(library)) for library in self.libraries)


def find_versions() -> Versions:
    """Finds the versions of the package, of Python, and of the libraries. Imports none of the libraries."""
    try:
        distribution = importlib.metadata.distribution("keras-encdec")
        requirements = [Requirement(text) for text in distribution.requires or ()]
        extras = sorted(set(distribution.metadata.get_all("Provides-Extra") or ()) - _CONTRIBUTORS)
    except importlib.metadata.PackageNotFoundError:
        distribution, extras = None, []
        requirements = [Requirement(name) for name in ("keras", "numpy", *BACKENDS)]
    wanted: dict[str, tuple[Requirement, list[str]]] = {}
    for requirement in requirements:
        marker = requirement.marker
        always = marker is None or marker.evaluate({"extra": ""})
        needed_by = [] if always or marker is None else [name for name in extras if marker.evaluate({"extra": name})]
        if always or needed_by:
            wanted.setdefault(requirement.name, (requirement, []))[1].extend(needed_by)
    libraries = tuple(_library(requirement, tuple(extras)) for requirement, extras in wanted.values())
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return Versions(__version__, platform.python_version(), system, libraries, distribution is not None)


def _library(requirement: Requirement, extras: tuple[str, ...]) -> Library:
    version = _installed_version(requirement.name)
    fits = version is not None and requirement.specifier.contains(version, prereleases=True)
    return Library(requirement.name, str(requirement.specifier), extras, version, fits)


def _installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name) or None
    except (importlib.metadata.PackageNotFoundError, KeyError):  # KeyError: the installation was interrupted
        return None


@dataclasses.dataclass(frozen=True)
class ChosenBackend:
    """The backend that Keras will use.

    Attributes:
        name: str, such as "tensorflow".
        chosen_by: str. What chose it, such as "KERAS_BACKEND".
        installed: tuple of str, the backends that are installed.
    """

    name: str
    chosen_by: str
    installed: tuple[str, ...]

    title = "Backend"

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each problem."""
        if self.name in self.installed:
            return ()
        known = self.name in BACKENDS
        installed = ", ".join(self.installed) or "none"
        found = "is not installed" if known else "is not a backend of this package"
        remedy = f"pip install {self.name}, or set KERAS_BACKEND" if known else "set KERAS_BACKEND"
        return (f"The backend {self.name}, chosen by {self.chosen_by}, {found}; {remedy} (installed: {installed}).",)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what to show: labels and values."""
        yield "chosen", f"{self.name}, by {self.chosen_by}"
        yield "installed", ", ".join(self.installed) or "none"


def find_backend() -> ChosenBackend:
    """Finds the backend that Keras will use, as Keras chooses it, without importing Keras."""
    installed = tuple(name for name in BACKENDS if _installed_version(name))
    if given := os.environ.get("KERAS_BACKEND"):
        return ChosenBackend(given, "KERAS_BACKEND", installed)
    if configured := backend_in_settings():
        return ChosenBackend(configured, os.fspath(settings_file()), installed)
    return ChosenBackend("tensorflow", "default", installed)


DTYPES = ("float32", "bfloat16")
# An import takes seconds, but minutes if a slow disk is read for the first time.
_TIMEOUT = 600.0
# The matrices grow until their product takes this number of seconds, or until they have the largest size.
_LONG_ENOUGH, _SMALLEST, _LARGEST = 0.01, 512, 8192
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import write_findings; write_findings()"


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
        BackendProbe, even if the backend cannot be imported, crashes, or does not end.
    """
    command = [sys.executable, "-c", _START.format(__name__), json.dumps(sys.path)]
    # Warnings of libraries are not problems: commands hide them, even where PYTHONWARNINGS=error makes them errors.
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "KERAS_BACKEND": backend, "PYTHONWARNINGS": "ignore"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_TIMEOUT)
        output, failure = done.stdout, _failure(done)
    except subprocess.TimeoutExpired as error:
        output, failure = error.stdout or b"", f"it did not end in {_TIMEOUT / 60:.0f} minutes"
    except OSError as error:
        output, failure = b"", f"its process did not start: {error.strerror}"
    found: dict[str, Any] = {"seconds": None, "devices": (), "gflops": {}, "problem": None}
    # A crash may cut off the last line, and Python's start (sitecustomize) may print others.
    for line in re.findall(rb'^\[".*\n', output, re.MULTILINE):
        name, value = json.loads(line)
        found |= {name: {**found["gflops"], **value} if name == "gflops" else value}
    problem = found["problem"] or (failure and _problem(backend, failure, found["seconds"] is not None))
    problems = (problem,) if problem else ()
    return BackendProbe(backend, found["seconds"], tuple(found["devices"]), found["gflops"], problems)


def _failure(done: subprocess.CompletedProcess[bytes]) -> str:
    if done.returncode < 0:
        return f"signal {-done.returncode} ended it"
    lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return (lines or [f"it ended with status {done.returncode}"])[-1].rstrip(".") if done.returncode else ""


def _problem(backend: str, failure: str, imported: bool) -> str:
    what = "can be imported, but cannot compute" if imported else "cannot be imported"
    remedy = f"install it again (pip install --force-reinstall keras {backend}), or set KERAS_BACKEND to another one"
    return f"The backend {backend} {what} ({failure}); {remedy}."


def write_findings() -> None:
    """Writes what is found about the backend to standard output: on each line a name and a value, as a list in JSON."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # sends what libraries print on standard output to standard error
    try:
        for result in _results():
            print(json.dumps(result), file=results, flush=True)
    except Exception as error:  # broken libraries raise many kinds of errors
        if isinstance(error, InputError) and error.path is not None:  # the backend is not at fault
            print(json.dumps(["problem", str(error)]), file=results, flush=True)
            sys.exit(1)
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
    from keras_encdec.backend.devices import seconds_of_products

    size = _SMALLEST
    while (seconds := seconds_of_products([dtype], size)[dtype]) < _LONG_ENOUGH and size < _LARGEST:
        size *= 2
    return 2 * size**3 / seconds / 1e9
