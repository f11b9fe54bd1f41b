"""Writes a file of results: what was measured, on which machine, with which versions and commit, and when."""

import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess

from keras_encdec import __version__
from keras_encdec.backend.devices import processor_flags
from keras_encdec.diagnosis.diagnosis import processor_name

HERE = pathlib.Path(__file__).parent
LIBRARIES = "keras", "tensorflow", "jax", "torch", "numpy"
# Beginnings of the processor flags, in Linux's names, that determine how fast matrices are multiplied.
INSTRUCTIONS = "avx", "amx", "fma", "asimd", "bf16", "sve"


def machine() -> dict:
    """Describes the processor, the number of usable cores, and the instructions that multiply matrices."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    instructions = sorted(flag for flag in processor_flags() if flag.startswith(INSTRUCTIONS))
    return {"processor": processor_name(), "cores": cores, "instructions": instructions}


def versions() -> dict[str, str]:
    """Returns the versions of Python, the package and the installed libraries."""
    found = {"python": platform.python_version(), "keras-encdec": __version__}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Returns the commit of the checkout, with "+" if files differ from it; `None` without git."""
    try:
        run = [
            subprocess.check_output(["git", *command], cwd=HERE, text=True, stderr=subprocess.DEVNULL).strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return run[0] + "+" * bool(run[1])


def write_results(results: dict, folder: pathlib.Path) -> pathlib.Path:
    """Writes results to a new file, after the circumstances.

    Args:
        results: what was measured.
        folder: path of the folder, which is created if it does not exist.

    Returns:
        Path of the file, named after the time and the commit.
    """
    now, revision = datetime.datetime.now(datetime.UTC), commit()
    circumstances = {
        "date": now.isoformat(timespec="seconds"),
        "commit": revision,
        "machine": machine(),
        "versions": versions(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y-%m-%dT%H%M%S}-{(revision or 'unknown')[:9]}.json"
    path.write_text(json.dumps({**circumstances, **results}, indent=1) + "\n", encoding="utf-8")
    return path
