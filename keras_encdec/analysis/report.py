"""Writes a report with the paper's tables and figures for a user's own model."""

import dataclasses
import pathlib
import time
from collections.abc import Callable, Sequence

from keras_encdec.analysis.page.figures import drawing_style
from keras_encdec.analysis.page.fonts import boxes_notice
from keras_encdec.analysis.page.page import Section, page
from keras_encdec.analysis.page.training_sections import read_training_run
from keras_encdec.analysis.report_options import (
    PAGE,
    ReportOptions,
    files_of_earlier_report,
    remove_files,
    report_folder,
    with_images,
)
from keras_encdec.analysis.report_sections import ReportSections
from keras_encdec.formats import FilePath
from keras_encdec.model_config import check_has_history
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.runtime.files import check_lists, check_path, is_url, joined
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.unfinished import new_folder
from keras_encdec.trained_model import check_direction, check_has_source


def write_section(folder: pathlib.Path, section: Section) -> None:
    """Writes the tables of a section as TSV, its figures as SVG and PNG, and its other files."""
    for name, table in section.tables.items():
        _write(folder / "tables" / f"{name}.tsv", table.to_tsv())
    for name, drawing in section.pictures.items():
        _write(folder / "figures" / f"{name}.svg", drawing.svg)
        _write(folder / "figures" / f"{name}.png", drawing.png)
    for name, content in section.files.items():
        _write(folder / name, content)


def _write(path: pathlib.Path, content: bytes) -> None:
    with new_folder(path.parent):
        write_file(path, content)


@dataclasses.dataclass(frozen=True)
class ReportSummary:
    """The result of `report`.

    Attributes:
        page: pathlib.Path of the page; if it is remote, its URL, a str.
        sections: tuple of str, the names of its sections.
        seconds: float. Time that the report took.
        notices: tuple of str, warnings for the user.
        size: int. Size of the page, in bytes.
    """

    page: pathlib.Path | str
    sections: tuple[str, ...]
    seconds: float
    notices: tuple[str, ...]
    size: int

    def __str__(self) -> str:
        took = f"Report of {counted(len(self.sections), 'sections')} in {self.seconds:.1f} s"
        return f"{took}, a page of {self.size / 1e6:.1f} MB: {self.page}"


def report(
    model_dir: FilePath | ModelDirectory,
    output: FilePath,
    phrase_table: FilePath | None = None,
    *,
    source: FilePath | None = None,
    target: FilePath | None = None,
    compare_with: Sequence[FilePath] = (),
    options: ReportOptions | None = None,
    say: Callable[[str], None] = lambda line: None,
    **values: object,
) -> ReportSummary:
    """Reproduces the paper's tables and figures for a model: an HTML page, figures as PNG and SVG, tables as TSV.

    With a phrase table, the report shows the best targets, samples, the model's scores against the table's, and a map
    of phrases. With sentences, it shows the attention weights of a model with attention; with their references, also
    scores and BLEU by length. The gates need a phrase table or sentences. The map of words, the history of the training
    and, for a pruned model, the share of pruned weights by class need only the model.

    Args:
        model_dir: directory of a model of p(target | source), or a loaded ModelDirectory.
        output: folder to write to. The files of an earlier report in it are replaced or removed.
        phrase_table: phrase table of the model's languages, plain or gzipped. Optional.
        source: file of sentences, one per line. Optional.
        target: file of their reference translations. Optional. BLEU needs the extra `smt`.
        compare_with: list of model directories whose training curves are plotted with the model's. Defaults to none.
        options: ReportOptions. Defaults to `ReportOptions()`.
        say: function that is called with a line when a step begins. Defaults to no output.
        **values: options by name, which override those in `options`.

    Raises:
        ImportError: if the extra `analysis` is not installed.
        ConfigurationError: a ValueError, for a target without a source, or phrases without a table.
        InputError: if a model or an input file cannot be used, or the folder cannot be written to or has another page.

    Example:

        print(report("model", "report", "phrase-table.gz"))
    """
    start, options = time.monotonic(), ReportOptions.combined(options, values)
    check_path(output, "the folder of a report")
    options.check_files(phrase_table, source, target)
    check_lists(("compare_with",), compare_with=compare_with)
    earlier = files_of_earlier_report(output)
    for folder in compare_with:
        check_has_history(folder)
    runs = [run for folder in compare_with if (run := read_training_run(folder))]
    directory = ModelDirectory.open(model_dir)
    check_direction(directory, False, "--model_dir")
    check_has_source(directory.model.has_source, directory.path)
    if own := read_training_run(directory.path):
        runs.insert(0, own)
    parts, sections, boxes = ReportSections(directory, options, say), [], set[str]()
    with report_folder(output, earlier) as folder, drawing_style():
        for section in parts.sections(phrase_table, source, target, runs):
            write_section(folder, section)
            sections.append(section.without_contents())
            boxes.update(*(drawing.boxes for drawing in section.pictures.values()))
        if boxes:
            unaffected = "the tables and the interactive maps of the page"
            parts.notices.append(boxes_notice(boxes, unaffected, "report"))
        remove_files(folder, earlier - with_images(path for section in sections for path in section.paths()))
        path = folder / PAGE  # written last: it names the other files
        _write(path, page("What the model has learned", parts.facts, parts.notices, sections))
        size = path.stat().st_size
    names = tuple(section.name for section in sections)
    shown = joined(output, PAGE) if is_url(output) else path
    notices = tuple(f"warning: {notice}" for notice in parts.notices)
    return ReportSummary(shown, names, time.monotonic() - start, notices, size)
