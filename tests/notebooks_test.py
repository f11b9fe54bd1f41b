"""The notebooks in docs/notebooks run from a clean kernel, each on another backend."""

import pathlib

import pytest

NOTEBOOKS = pathlib.Path(__file__).parents[1] / "docs" / "notebooks"
jupytext = pytest.importorskip("jupytext", reason="Jupyter's tools are not installed: pip install '.[dev]'")
# PyTorch does not compile, which would take most of the time.
BACKENDS = {"paper": "torch", "own_model": "jax", "attention": "torch"}


def test_each_notebook_is_run():
    assert {path.stem for path in NOTEBOOKS.glob("*.py")} == set(BACKENDS)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_notebook_runs(name, monkeypatch, tmp_path):
    from nbclient import NotebookClient

    for variable, value in (("MINUTES", "0.05"), ("EPOCHS", "1")):
        monkeypatch.setenv(f"NOTEBOOK_{variable}", value)
    monkeypatch.setenv("KERAS_BACKEND", BACKENDS[name])
    notebook = jupytext.read(NOTEBOOKS / f"{name}.py")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.get("name") == "stdout" for output in results)
    if name == "attention":
        assert sum("image/png" in output.get("data", {}) for output in results) == 2
