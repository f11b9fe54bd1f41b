"""Compares two runs of run.py and prints what moved by more than the noise.

    python benchmarks/compare.py OLD.json NEW.json [--noise 0.1]

The noise of a figure is the spread of its repetitions (run.py --repeats), the larger of the two files; a figure that
was not repeated in both files has the noise given by --noise. The matrix products are compared, too: if they moved in
the same way as the rest, the machine became faster or slower, not the code.
"""

import argparse
import json
import pathlib
from typing import NamedTuple


class Figure(NamedTuple):
    """A rate, and its spread over repetitions as a share of the rate; `None` if it was measured once."""

    rate: float
    spread: float | None


def figures(results: dict) -> dict[tuple, Figure]:
    """Returns the rates of a file of results, by what was measured."""
    found = {}
    for dtype, limits in results["limits"].items():
        for library, rate in limits.items():
            if rate:  # 0 if the library crashed
                found["matrix products", "", dtype, library] = Figure(rate, None)
    for row in results["rows"]:
        rates = row.get("repeated", [])
        spread = (max(rates) - min(rates)) / row["pairs_per_second"] if len(rates) > 1 else None
        key = row["work"], f"batch {row['batch']}", row["dtype"], row["who"]
        found[key] = Figure(row["pairs_per_second"], spread)
    return found


def moved(old: dict, new: dict, noise: float) -> list[str]:
    """Returns lines that say what differs between two files of results.

    Args:
        old: results that run.py wrote.
        new: results of a later run.
        noise: share of a figure that counts as noise where it was not repeated.
    """
    lines = [
        f"{name} differs: {old.get(name)} before, {new.get(name)} now"
        for name in ("machine", "versions")
        if old.get(name) != new.get(name)
    ]
    before, now = figures(old), figures(new)
    for key in [*before, *(key for key in now if key not in before)]:
        name = " ".join(filter(None, key))
        if key not in now or key not in before:
            lines.append(f"{name}: only in the {'old' if key in before else 'new'} file")
            continue
        spreads = before[key].spread, now[key].spread
        tolerated = noise if None in spreads else max(spreads)
        change = now[key].rate / before[key].rate - 1
        if abs(change) > tolerated:
            rates = f"{before[key].rate:,.0f} before, {now[key].rate:,.0f} now"
            lines.append(f"{name}: {rates}, {change:+.0%} (noise {tolerated:.0%})")
    return lines


def main() -> None:
    """Prints the differences of two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument(
        "--noise", type=float, default=0.1, help="noise of figures that were not repeated; default: 0.1"
    )
    options = parser.parse_args()
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (options.old, options.new))
    print("\n".join(moved(old, new, options.noise)) or "Nothing moved by more than the noise.")


if __name__ == "__main__":
    main()
