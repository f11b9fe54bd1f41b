"""The report's files, each complete or not there."""

import pathlib

from keras_encdec.analysis.page.section import Section
from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, open_output

PAGE = "index.html"


def report_folder(output: FilePath) -> pathlib.Path:
    """Makes the folder of a report.

    Raises:
        InputError: when there is a file of its name, or it cannot be made.
    """
    folder = pathlib.Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError("found a file", "expected a folder, or nothing", "give another --output", folder) from None
    except OSError as error:
        raise InputError(
            f"the folder could not be made ({error.strerror})", remedy="check the path and its permissions", path=folder
        ) from None
    return folder


def write_section(folder: pathlib.Path, section: Section) -> None:
    """Writes the tables of a section as TSV, its figures as SVG and PNG, and its further files."""
    for name, table in section.tables.items():
        _write(folder / "tables" / f"{name}.tsv", table.to_tsv())
    for name, drawing in section.pictures.items():
        for form, content in drawing._asdict().items():
            _write(folder / "figures" / f"{name}.{form}", content)
    for name, content in section.files.items():
        _write(folder / name, content)


def write_page(folder: pathlib.Path, content: bytes) -> pathlib.Path:
    """Writes the page itself, last: where it stands, all it speaks of is there. Returns its path."""
    path = folder / PAGE
    _write(path, content)
    return path


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_output(path) as file:
        file.write(content)
