"""Makes pages of the notebooks in docs/notebooks, which are kept as text."""

import os
import pathlib
from collections.abc import Iterator

import jupytext
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbconvert.filters import strip_ansi

NOTEBOOKS = pathlib.Path(__file__).parents[1] / "notebooks"
SOURCE = """

This page is a notebook. [Download it as a file]({stem}.ipynb) for Jupyter or Colab. In the repository it is text,
`docs/notebooks/{stem}.py`, which Jupyter opens with the extension [jupytext](https://jupytext.readthedocs.io).

In Colab, choose *File*, *Upload notebook*. Then upload the package's wheel, which `make wheel` writes to `dist/`, and
run `%pip install "WHEEL[analysis]"`, with the wheel's name for WHEEL, in a cell before the others.
"""


def notebook_pages(config: MkDocsConfig) -> Iterator[File]:
    """Yields a page for each notebook, and its pictures.

    With the environment variable EXECUTE_NOTEBOOKS, the notebooks run first, which takes minutes; otherwise the pages
    have no results.
    """
    for path in sorted(NOTEBOOKS.glob("*.py")):
        notebook = jupytext.read(path)
        yield File.generated(config, f"notebooks/{path.stem}.ipynb", content=jupytext.writes(notebook, fmt="ipynb"))
        if os.environ.get("EXECUTE_NOTEBOOKS"):
            NotebookClient(
                notebook, timeout=1800, coalesce_streams=True, resources={"metadata": {"path": str(path.parent)}}
            ).execute()
            for cell in notebook.cells:
                if cell.cell_type == "code":  # the backends' messages are not results
                    cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
                    for output in cell.outputs:  # HTML has colours for a white page only
                        data = output.get("data", {})
                        data.pop("text/html", None)
                        if "text/plain" in data:  # Keras's tables have colours for a terminal only
                            data["text/plain"] = strip_ansi(data["text/plain"])
        text, resources = MarkdownExporter().from_notebook_node(notebook)
        title, _, rest = text.strip().partition("\n")
        page = title + SOURCE.format(stem=path.stem) + rest
        for name, picture in resources["outputs"].items():
            page = page.replace(f"]({name})", f"]({path.stem}_{name})")
            yield File.generated(config, f"notebooks/{path.stem}_{name}", content=picture)
        yield File.generated(config, f"notebooks/{path.stem}.md", content=page)
