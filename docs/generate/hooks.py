"""MkDocs hook: fills in the tables made from the code, and adds the pages that stand at the top of the checkout.

A line `<!-- flags: encdec-train -->` is replaced by that command's flags, `<!-- hyperparameters:
module:class -->` by the table of that configuration, and `<!-- api: package -->` by the documentation of what the
package exports. In the repository, such a page says where it is built; the built page does not. Links to files that
become pages, such as a notebook or ARCHITECTURE.md, lead to these pages.
"""

import pathlib
import re
import shutil
from typing import Any

from api import directives
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from notebooks import notebook_pages
from tables import configuration_table, flag_table

ROOT = pathlib.Path(__file__).parents[2]
MARKER = re.compile(r"^<!-- (\w+): (\S+) -->$", re.MULTILINE)
NOTE = re.compile(r"^> In the repository, .*\n> .*\n\n", re.MULTILINE)
GENERATED = {"flags": flag_table, "hyperparameters": configuration_table, "api": directives}
TOP_LEVEL = {f"{name}.md": f"{name.lower()}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "RELEASING", "CHANGELOG")}
TOP_LEVEL_LINK = re.compile(rf"\]\(((?:\.\./)*)\.\./({'|'.join(map(re.escape, TOP_LEVEL))})")
NOTEBOOK_LINK = re.compile(r"(\]\((?:\.\./)*notebooks/\w+)\.py")


@event_priority(100)  # before mkdocstrings, which leaves out folders that are not there yet
def on_config(config: MkDocsConfig) -> None:
    """Copies the package for mkdocstrings, with `trainers` and `export` inside it as they are installed."""
    copy = ROOT / "build" / "documented" / "keras_encdec"
    shutil.rmtree(copy, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "libreoffice_en_fr")
    shutil.copytree(ROOT / "keras_encdec", copy, ignore=ignored)
    for package in ("trainers", "export"):
        shutil.copytree(ROOT / package, copy / package, ignore=ignored)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the notebooks, and the pages from the top of the checkout, their links as seen from docs/."""
    for name, page in TOP_LEVEL.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        for other, other_page in TOP_LEVEL.items():
            text = text.replace(f"]({other}", f"]({other_page}")
        files.append(File.generated(config, page, content=text))
    for notebook_file in notebook_pages(config):
        files.append(notebook_file)
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Fills in what is generated, and links to pages."""
    markdown = TOP_LEVEL_LINK.sub(lambda link: f"]({link[1]}{TOP_LEVEL[link[2]]}", NOTE.sub("", markdown))
    markdown = NOTEBOOK_LINK.sub(r"\1.md", markdown)
    return MARKER.sub(lambda marker: GENERATED[marker[1]](marker[2]), markdown)
