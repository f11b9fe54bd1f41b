"""Examines the installation, the machine, and what is on disk, step by step. Broken parts do not stop it."""

import contextlib
import dataclasses
import os
import pathlib
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from keras_encdec.backend.devices import processor_flags
from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.diagnosis.libraries import (
    BackendProbe,
    ChosenBackend,
    Versions,
    find_backend,
    find_versions,
    probe_backend,
)
from keras_encdec.diagnosis.paths import CheckedPath, check_path
from keras_encdec.errors import FilePath
from keras_encdec.runtime.control_groups import memory_limit, processor_limit, system_text
from keras_encdec.runtime.workers import available_processors


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
        False, "Start every installed backend, each in its own process, not only the chosen one."
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
    machine: "Machine"
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


# Instruction sets by their usual names, with their names in Linux's list, for x86 and ARM processors.
_X86 = {
    "AVX2": "avx2",
    "AVX512F": "avx512f",
    "AVX512_BF16": "avx512_bf16",
    "AMX-BF16": "amx_bf16",
    "AVX512_VNNI": "avx512_vnni",
    "AVX-VNNI": "avx_vnni",
}
_ARM = {"NEON": "asimd", "FP16": "asimdhp", "dot product": "asimddp", "SVE": "sve", "BF16": "bf16", "I8MM": "i8mm"}
_THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "MKL_NUM_THREADS")
_PROC = pathlib.Path("/proc")
_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Machine:
    """The machine, and the part of it that this process may use.

    Attributes:
        processor: str. Name of the processor.
        instructions: dict from instruction set to whether the processor has it; empty if this is not known.
        processors: int. Number of processors.
        usable_processors: int. Number of processors that this process may use, by its affinity and by the limit of
            its control group, rounded up.
        processor_limit: float. Number of processors whose time the control group allows; `None` for no limit.
        thread_variables: dict of the environment variables that set the number of threads, without unset ones.
        graphics: tuple of str, the NVIDIA GPUs that the driver reports, whether or not a backend can use them.
        memory_total: int. Bytes; `None` if not known.
        memory_free: int. Bytes that programs can still take; `None` if not known.
        memory_limit: int. Bytes that the control group allows; `None` for no limit.
        folder: str. The folder whose disk is described.
        disk_total, disk_free: int. Bytes; `None` if not known.
    """

    processor: str
    instructions: dict[str, bool]
    processors: int
    usable_processors: int
    processor_limit: float | None
    thread_variables: dict[str, str]
    graphics: tuple[str, ...]
    memory_total: int | None
    memory_free: int | None
    memory_limit: int | None
    folder: str
    disk_total: int | None
    disk_free: int | None

    title = "Machine"
    problems = ()

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what to show: labels and values."""
        yield "processor", self.processor
        has = [name for name, there in self.instructions.items() if there]
        lacks = [name for name, there in self.instructions.items() if not there]
        known = "; ".join([", ".join(has) or "none of these", *([f"lacks {', '.join(lacks)}"] if lacks else [])])
        yield "instructions", known if self.instructions else "not known on this system"
        limit = "no limit" if self.processor_limit is None else f"limit {self.processor_limit:g}"
        yield "processors", f"{self.processors}; this process may use {self.usable_processors} (control group: {limit})"
        yield from self.thread_variables.items()
        yield "GPUs", "; ".join(self.graphics) or "no NVIDIA driver found"
        limit = "no limit" if self.memory_limit is None else f"limit {_gib(self.memory_limit)}"
        yield "memory", f"{_gib(self.memory_free)} free of {_gib(self.memory_total)} (control group: {limit})"
        yield "disk", f"{_gib(self.disk_free)} free of {_gib(self.disk_total)} ({self.folder})"


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / _GIB:,.1f} GiB"


def find_machine(folder: FilePath = ".") -> Machine:
    """Asks the operating system about the machine.

    Args:
        folder: path of a folder whose disk is described. Defaults to the working directory.
    """
    total, free = _memory()
    disk = None
    with contextlib.suppress(OSError):
        disk = shutil.disk_usage(folder)
    limit = memory_limit()
    if limit is not None and total is not None and limit >= total:
        limit = None
    return Machine(
        processor=processor_name(),
        instructions=_instructions(),
        processors=os.cpu_count() or 1,
        usable_processors=available_processors(),
        processor_limit=processor_limit(),
        thread_variables={name: os.environ[name] for name in _THREADS if name in os.environ},
        graphics=_graphics(),
        memory_total=total,
        memory_free=free,
        memory_limit=limit,
        folder=os.path.abspath(folder),
        disk_total=disk and disk.total,
        disk_free=disk and disk.free,
    )


def processor_name() -> str:
    """Returns the name of the processor, or else of its architecture."""
    for line in system_text(_PROC / "cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _instructions() -> dict[str, bool]:
    known = processor_flags()
    names = _ARM if platform.machine().lower() in ("aarch64", "arm64") else _X86
    return {name: flag in known for name, flag in names.items()} if known else {}


def _memory() -> tuple[int | None, int | None]:
    lines = (line.split() for line in system_text(_PROC / "meminfo").splitlines())
    sizes = {words[0].rstrip(":"): int(words[1]) << 10 for words in lines if len(words) > 1}
    total = sizes.get("MemTotal")
    if total is None:  # not Linux
        with contextlib.suppress(OSError, ValueError):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return total, sizes.get("MemAvailable")


def _graphics() -> tuple[str, ...]:
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(done.stdout.strip().splitlines()) if done.returncode == 0 else ()
