"""Options of a report, and the folder that it is written to; without Keras."""

import contextlib
import dataclasses
import os
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator

from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath, InputError
from keras_encdec.runtime.files import exists, is_url, joined, read_contents
from keras_encdec.runtime.imports import check_extra
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.runtime.unfinished import directory_lock, new_folder
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class ReportOptions(EncodingOption):
    """Options of `report`: how much it shows."""

    phrases: tuple[str, ...] = hyperparameter(
        (),
        "Source phrase of the table, without Moses's escapes, for the tables of best targets and samples; may be given "
        "several times. Default: frequent and rare phrases of four words or more are drawn.",
    )
    phrases_per_kind: int = hyperparameter(
        5, "Number of frequent phrases, and of rare ones, to draw if no phrases are given.", minimum=1
    )
    samples: int = hyperparameter(50, "Number of targets to draw from the model for each phrase.", minimum=1)
    pairs: int = hyperparameter(
        100_000,
        "Maximum number of pairs of the table to score: if it has more, a random sample of them is scored.",
        minimum=1,
    )
    map_words: int = hyperparameter(
        2000, "Number of the most frequent source words on the map of words; 0 for no map.", minimum=0
    )
    map_phrases: int = hyperparameter(
        5000, "Number of source phrases of four words or more to draw for the map of phrases; 0 for no map.", minimum=0
    )
    seed: int = hyperparameter(0, "Random seed for all sampling.", minimum=0)

    def check(self) -> None:
        super().check()
        if self.phrases and "phrases_per_kind" in self.changed():
            raise ConfigurationError(
                "found {phrases_per_kind} with {phrases}, which leave none to draw; drop one of the two"
            )

    def check_files(
        self, phrase_table: FilePath | None = None, source: FilePath | None = None, target: FilePath | None = None
    ) -> None:
        """Checks that the files of `report` suit one another and the options.

        Raises:
            ConfigurationError: a ValueError, for a target without a source, or options of a table without a table.
            ImportError: for a target, if sacrebleu is not installed.
        """
        if target is not None and source is None:
            raise ConfigurationError("found {target} without {source}, expected both: a text and its translation")
        if phrase_table is None:
            for name in self.changed():
                if name in ("phrases", "phrases_per_kind", "samples", "pairs", "map_phrases"):
                    raise ConfigurationError(f"found {{{name}}} without {{phrase_table}}, which it needs; give both")
        if target is not None:
            check_extra("smt", "BLEU", "sacrebleu")


PAGE = "index.html"
# The end of each page, and its links to the files of its sections.
_MADE_BY = b"Made by keras-encdec"
_LINK = re.compile(rb'<a href="((?:tables|figures|projector)(?:/\w+)+\.(?:tsv|svg))">')


@contextlib.contextmanager
def report_folder(output: FilePath, earlier: Collection[str] = ()) -> Iterator[pathlib.Path]:
    """Creates the folder of a report, and locks it: two reports at a time would mix their files.

    The block may remove files of an earlier report. After an exception, a new folder that is still empty is removed.

    Raises:
        InputError: if `output` is a file, if the folder cannot be created, or if another report is being written to it.
    """
    if is_url(output):
        with StagedFolder(os.fspath(output), True, last=[PAGE], only=lambda name: name in earlier) as folder:
            yield folder
        return
    with new_folder(output) as folder, directory_lock(folder, "report", "--output"):
        yield folder


def files_of_earlier_report(output: FilePath) -> set[str]:
    """Lists the files of the report in a folder, which its page names, as paths relative to it; none without a page.

    Raises:
        InputError: if the page is not that of a report.
    """
    if not exists(path := joined(output, PAGE)):
        return set()
    page = read_contents(path)
    if _MADE_BY not in page:
        found = "found a page that encdec-report did not write"
        expected = "expected the page of an earlier report, or no file"
        raise InputError(found, expected, "move it elsewhere, or give another --output", path)
    return with_images(link.decode() for link in _LINK.findall(page))


def with_images(paths: Iterable[str]) -> set[str]:
    """Adds to the files that a page names the PNG file beside each SVG file."""
    return {each for path in paths for each in (path, re.sub(r"^(figures/.*)svg$", r"\1png", path))}


def remove_files(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Removes files from the folder of a report, and its folders that are then empty."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
        for parent in pathlib.PurePath(name).parents[:-1]:
            with contextlib.suppress(OSError):
                (folder / parent).rmdir()
