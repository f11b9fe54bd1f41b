"""Keeps the programs that JAX compiles in the user's cache directory, so that the next start need not compile them."""

import contextlib
import hashlib
import os
import pathlib
import platform
import re

# Set to 0 to keep nothing.
SWITCH = "ENCDEC_COMPILATION_CACHE"
# Of the folder in bytes; JAX removes what was not used for longest.
LARGEST = 1 << 29


def keep_compiled_programs() -> None:
    """Turns JAX's cache of compiled programs on, before JAX is imported. Its variables that the user has set are kept.

    The cache is a folder for each kind of processor, because a program may use instructions that another processor
    lacks, and home directories are shared. `benchmarks/first_output.py` measures what a second start saves.
    """
    if os.environ.get(SWITCH) == "0" or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    folder = cache_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(LARGEST))
    # Programs for a few lines are small and many: by default JAX keeps none that took less than a second.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def cache_folder() -> pathlib.Path:
    """The folder of the cache for this processor, in `XDG_CACHE_HOME` or `~/.cache`."""
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        processor = " ".join(sorted(set(re.findall(r"^(?:flags|Features)\s*:.*$", text, re.MULTILINE))))
    except OSError:
        processor = platform.processor()
    kind = f"{platform.machine()} {processor} {os.environ.get('XLA_FLAGS', '')}"
    return root / "keras-encdec" / f"jax-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
