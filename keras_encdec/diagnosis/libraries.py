"""The versions of the libraries that the package and its extras need, and the backend that is chosen."""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
from collections.abc import Iterator

from packaging.requirements import Requirement

from keras_encdec import __version__

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
        """One sentence, or `None` if the library is as it should be. A missing extra is no problem."""
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
            found.append("keras-encdec is not installed, so that the libraries it needs are not known; pip install it.")
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
        installing = [] if always or marker is None else [one for one in extras if marker.evaluate({"extra": one})]
        if always or installing:
            wanted.setdefault(requirement.name, (requirement, []))[1].extend(installing)
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
    except (importlib.metadata.PackageNotFoundError, KeyError):  # also where an installation was cut short
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
        there = ", ".join(self.installed) or "none"
        found = "is not installed" if known else "is no backend of this package"
        remedy = f"pip install {self.name}, or set KERAS_BACKEND" if known else "set KERAS_BACKEND"
        return (f"The backend {self.name}, chosen by {self.chosen_by}, {found}; {remedy} (installed: {there}).",)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what to show: labels and values."""
        yield "chosen", f"{self.name}, by {self.chosen_by}"
        yield "installed", ", ".join(self.installed) or "none"


def find_backend() -> ChosenBackend:
    """Finds the backend that Keras will use, as Keras chooses it, without importing Keras."""
    folder = pathlib.Path(os.environ.get("KERAS_HOME") or pathlib.Path("~/.keras").expanduser())
    configured = None
    with contextlib.suppress(OSError, ValueError, AttributeError):  # Keras, too, passes over a file that is broken
        configured = json.loads((folder / "keras.json").read_bytes()).get("backend")
    installed = tuple(name for name in BACKENDS if _installed_version(name))
    if given := os.environ.get("KERAS_BACKEND"):
        return ChosenBackend(given, "KERAS_BACKEND", installed)
    if configured:
        return ChosenBackend(str(configured), os.fspath(folder / "keras.json"), installed)
    return ChosenBackend("tensorflow", "default", installed)
