"""A file of results: what was measured, on which machine, with which versions, when, and of which commit."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

from keras_encdec import __version__
from keras_encdec.backend.devices import processor_flags

HERE = pathlib.Path(__file__).parent
LIBRARIES = "keras", "tensorflow", "jax", "torch", "numpy"
# The flags of a processor that decide how fast matrices are multiplied begin so, as Linux names them.
INSTRUCTIONS = "avx", "amx", "fma", "asimd", "bf16", "sve"


def processor() -> str:
    """The name of the processor."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def machine() -> dict:
    """The processor, the cores that may be used, and the instructions that multiply matrices."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    instructions = sorted(flag for flag in processor_flags() if flag.startswith(INSTRUCTIONS))
    return {"processor": processor(), "cores": cores, "instructions": instructions}


def versions() -> dict[str, str]:
    """The versions of Python, the package and the libraries that are installed."""
    found = {"python": platform.python_version(), "keras-encdec": __version__}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the checkout, with "+" if files differ from it; `None` where there is no git."""
    try:
        run = [
            subprocess.check_output(["git", *command], cwd=HERE, text=True, stderr=subprocess.DEVNULL).strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return run[0] + "+" * bool(run[1])


def write_results(results: dict, folder: pathlib.Path) -> pathlib.Path:
    """Writes results to a new file, with the circumstances in front.

    Args:
        results: what was measured.
        folder: is made if it does not exist.

    Returns:
        Path of the file, named after the time and the commit.
    """
    now, of = datetime.datetime.now(datetime.UTC), commit()
    circumstances = {
        "date": now.isoformat(timespec="seconds"),
        "commit": of,
        "machine": machine(),
        "versions": versions(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%dT%H%M%S}-{(of or 'unknown')[:9]}.json"
    path.write_text(json.dumps({**circumstances, **results}, indent=1) + "\n", encoding="utf-8")
    return path
