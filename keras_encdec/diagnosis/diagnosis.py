"""Examines the installation, the machine, and what is on disk, step by step. Broken parts do not stop it."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.diagnosis.libraries import (
    BackendProbe,
    ChosenBackend,
    Versions,
    find_backend,
    find_versions,
    probe_backend,
)
from keras_encdec.diagnosis.machine import Machine, find_machine
from keras_encdec.diagnosis.paths import CheckedPath, check_path
from keras_encdec.errors import FilePath


class Section(Protocol):
    """A part of a diagnosis, in a form that a user can read."""

    @property
    def title(self) -> str:
        """The heading."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Sentences that say what is wrong, and what to do."""

    def rows(self) -> Iterable[tuple[str, str]]:
        """Returns labels and values, for a table."""


AnySection = TypeVar("AnySection", bound=Section)


@dataclasses.dataclass(frozen=True)
class DiagnosisOptions(Configuration):
    """Options of a diagnosis."""

    all_backends: bool = hyperparameter(
        False, "Whether to start every backend that is installed, each in its own process, not only the chosen one."
    )


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """All results of `diagnose`.

    Attributes:
        versions: Versions.
        backend: ChosenBackend.
        machine: Machine.
        computing: tuple of BackendProbe, for each backend that was started.
        paths: tuple of CheckedPath.
    """

    versions: Versions
    backend: ChosenBackend
    machine: Machine
    computing: tuple[BackendProbe, ...]
    paths: tuple[CheckedPath, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each problem, with its remedy; empty if all is well."""
        sections: list[Section] = [self.versions, self.backend, self.machine, *self.computing, *self.paths]
        return tuple(problem for section in sections for problem in section.problems)

    def to_dict(self) -> dict[str, object]:
        """Returns everything in a form that JSON can represent, and under "problems" what is wrong."""
        return {**dataclasses.asdict(self), "problems": list(self.problems)}


def diagnose(
    options: DiagnosisOptions | None = None,
    *,
    paths: Sequence[FilePath] = (),
    folder: FilePath = ".",
    show: Callable[[Section], object] = lambda section: None,
    **values: object,
) -> Diagnosis:
    """Examines the installation and the machine, and checks models, exports and shards on disk.

    Each backend runs in a separate process, so that a crash is reported and the diagnosis continues. Only the check of
    a model imports Keras in this process.

    Args:
        options: DiagnosisOptions. Defaults to `None`: the defaults of the command.
        paths: paths of model directories, exports and folders of sharded jobs to check. Defaults to none.
        folder: path of a folder whose disk is described. Defaults to the working directory.
        show: function that is called with each Section as soon as it is done; those that do not need Keras come first.
            Optional.
        **values: options by name, which override those in `options`.

    Returns:
        Diagnosis, with its problems. Broken parts raise no exception.
    """
    options = DiagnosisOptions.combined(options, values)

    def shown(section: AnySection) -> AnySection:
        show(section)
        return section

    versions = shown(find_versions())
    backend = shown(find_backend())
    machine = shown(find_machine(folder))
    started = list(backend.installed) if options.all_backends else []
    if backend.name not in started and not backend.problems:
        started.append(backend.name)
    computing = tuple(shown(probe_backend(name)) for name in started)
    works = any(probe.backend == backend.name and probe.seconds is not None for probe in computing)
    checked = tuple(shown(check_path(path, works)) for path in paths)
    return Diagnosis(versions, backend, machine, computing, checked)
