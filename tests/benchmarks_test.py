"""What the benchmarks measure, and what they leave out; the figures are made up."""

import importlib
import json
import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks"
LIMITS = {
    "float32": {"tensorflow": 100, "jax": 100, "torch": 100},
    "bfloat16": {"tensorflow": 120, "jax": 99, "torch": 2},
}


@pytest.fixture
def run(monkeypatch):
    """benchmarks/run.py, and what it is asked to measure: lists of script, arguments and backend."""
    monkeypatch.syspath_prepend(str(FOLDER))
    module, asked = importlib.import_module("run"), []

    def measured(script, *arguments, backend=None):
        asked.append((script, *map(str, arguments), backend))
        if script == "limit.py":
            return {"gflops": LIMITS[arguments[1]][arguments[0]]}
        if arguments[0] == "precision":
            return {"median_error": 0.04, "largest_error": 0.3, "rank_correlation": 0.9999}
        return {"pairs_per_second": 10.0, "gflops": 50.0, "seconds": 1.0, "peak_mb": 1.0}

    monkeypatch.setattr(module, "measured", measured)
    monkeypatch.setattr(module, "BACKENDS", list(LIMITS["float32"]))
    yield module, asked
    for name in ("run", "chart", "scaling", "workload"):
        sys.modules.pop(name, None)


def test_what_is_slower_in_bfloat16_is_left_out_and_told(run, monkeypatch, tmp_path, capsys):
    module, asked = run
    monkeypatch.setattr(module.scaling, "measure", lambda *arguments: {})
    monkeypatch.setattr(sys, "argv", ["run.py", "--full", f"--folder={tmp_path}"])
    module.main()
    told = capsys.readouterr().out
    assert all(f"bfloat16 on {library} is left out" in told for library in ("jax", "torch"))
    results = json.loads((tmp_path / "benchmarks.json").read_text())
    assert results["left_out"] == {"bfloat16": ["jax", "torch"]}
    measured = {(row["dtype"], row["who"]) for row in results["rows"]}
    assert {who for dtype, who in measured if dtype == "bfloat16"} == {"tensorflow", "keras peer"}
    assert {who for dtype, who in measured if dtype == "float32"} == {*LIMITS["float32"], "torch peer", "keras peer"}
    assert [one[-1] for one in asked if "precision" in one] == ["tensorflow"]
