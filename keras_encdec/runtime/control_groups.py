"""The limits of the control groups (cgroups) that this process is in, such as those of a container."""

import pathlib

_PROC, _CGROUPS = pathlib.Path("/proc"), pathlib.Path("/sys/fs/cgroup")


def processor_limit() -> float | None:
    """Returns the number of processors whose time this process may use, such as 1.5; `None` without a limit."""
    quotas = [float(quota) / float(period) for quota, period in map(str.split, _limits("cpu.max"))]
    for quota, period in zip(_limits("cpu/cpu.cfs_quota_us"), _limits("cpu/cpu.cfs_period_us"), strict=False):
        if int(quota) > 0:  # -1 is no limit
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit() -> int | None:
    """Returns the bytes of memory that this process may use; `None` without a limit."""
    return min(map(int, [*_limits("memory.max"), *_limits("memory/memory.limit_in_bytes")]), default=None)


def _limits(name: str) -> list[str]:
    """Returns the limits in a file of this process's control group and of its parent groups; "max" is left out."""
    groups = [line.partition("::")[2] for line in system_text(_PROC / "self" / "cgroup").splitlines() if "::" in line]
    group = _CGROUPS / (groups[0].lstrip("/") if groups else "")
    folders = [folder for folder in (group, *group.parents) if folder.is_relative_to(_CGROUPS)]
    texts = [system_text(folder / name).strip() for folder in folders]
    return [text for text in texts if text and not text.startswith("max")]


def system_text(path: pathlib.Path) -> str:
    """Returns the text of a system file; an empty text if it is missing or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
