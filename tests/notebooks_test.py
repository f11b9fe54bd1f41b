"""The notebooks in docs/notebooks run from a clean kernel, each on another backend, with little to learn from."""

import ast
import pathlib
import re
import sys
import tomllib

import pytest

NOTEBOOKS = pathlib.Path(__file__).parents[1] / "docs" / "notebooks"
jupytext = pytest.importorskip("jupytext", reason="Jupyter's tools are not installed: pip install '.[dev]'")
# PyTorch does not compile, which would take most of the time.
BACKENDS = {"paper": "torch", "own_model": "jax", "attention": "torch"}
# Runs before the notebook: Keras is imported as in commands, which takes half the time, and is not yet named.
LEAN_IMPORT = """\
import importlib
from keras_encdec.backend.startup import lean_imports

with lean_imports():
    importlib.import_module("keras")
del importlib, lean_imports
"""
# And what the package carries, cut short.
LITTLE_DATA = """\
import dataclasses, gzip, itertools, pathlib
from keras_encdec import datasets

whole, short = datasets.libreoffice_en_fr(), {}
for name in ("phrase_table", "train_source", "train_target"):
    short[name] = pathlib.Path(getattr(whole, name)).name
    with gzip.open(getattr(whole, name)) as lines, gzip.open(short[name], "wb") as file:
        file.writelines(itertools.islice(lines, 3000))
    short[name] = pathlib.Path(short[name]).resolve()
datasets.libreoffice_en_fr = lambda: dataclasses.replace(whole, **short)
"""


def test_each_notebook_is_run():
    assert {path.stem for path in NOTEBOOKS.glob("*.py")} == set(BACKENDS)


@pytest.mark.parametrize("name", BACKENDS)
def test_what_a_notebook_defines_says_what_it_does(name):
    tree = ast.parse((NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8"))
    defined = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert defined and not [node.name for node in defined if not ast.get_docstring(node)]


@pytest.mark.parametrize("name", BACKENDS)
def test_the_extra_of_the_documentation_installs_what_a_notebook_imports(name):
    project = tomllib.loads((NOTEBOOKS.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["docs"]
    installed = {re.match("[A-Za-z0-9_]+", requirement)[0] for requirement in requirements}
    imported = set()
    for node in ast.walk(ast.parse((NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8"))):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            imported.update(module.partition(".")[0] for module in modules)
    assert imported - sys.stdlib_module_names - {"keras_encdec"} <= installed


@pytest.mark.parametrize("name", BACKENDS)
def test_a_notebook_runs(name, monkeypatch, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    for variable, value in (("MINUTES", "0.02"), ("UPDATES", "3"), ("EPOCHS", "1")):
        monkeypatch.setenv(f"NOTEBOOK_{variable}", value)
    monkeypatch.setenv("KERAS_BACKEND", BACKENDS[name])
    text = (NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8")
    if name == "own_model":
        assert "dataset(20_000, 1)" in text
        text = text.replace("dataset(20_000, 1)", "dataset(1_024, 1)")
    notebook = jupytext.reads(text, fmt="py:percent")
    if "libreoffice_en_fr" in text:
        notebook.cells.insert(0, nbformat.v4.new_code_cell(LITTLE_DATA))
    notebook.cells.insert(0, nbformat.v4.new_code_cell(LEAN_IMPORT))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    results = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.get("name") == "stdout" for output in results)
    if name == "attention":
        assert sum("image/png" in output.get("data", {}) for output in results) == 2
