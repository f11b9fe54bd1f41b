"""How long each file of tests took when that was last recorded, in tests/durations.json."""

import collections
import json
import pathlib
from collections.abc import Iterable

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "durations.json"


def read_durations(path: pathlib.Path = RECORDED) -> dict[str, float | None]:
    """Seconds that each file took, by its path in the checkout, the longest first.

    `None` stands for a file that is known to take long, but was not measured.
    """
    return json.loads(path.read_text(encoding="utf-8"))


def file_seconds(reports: Iterable[pytest.TestReport]) -> dict[str, float]:
    """Seconds of each file: of its tests, with their fixtures."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for report in reports:
        seconds[report.nodeid.partition("::")[0]] += report.duration
    return seconds


def record_durations(measured: dict[str, float], path: pathlib.Path = RECORDED, root: pathlib.Path = ROOT) -> None:
    """Writes what was measured, and keeps what is known of the other files that still exist."""
    durations = {**read_durations(path), **{name: round(seconds, 1) for name, seconds in measured.items()}}
    existing = [(name, seconds) for name, seconds in durations.items() if (root / name).exists()]
    longest_first = sorted(existing, key=lambda entry: float("-inf") if entry[1] is None else -entry[1])
    path.write_text(json.dumps(dict(longest_first), indent=1) + "\n", encoding="utf-8")
