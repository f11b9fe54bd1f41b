"""Extracts a Moses phrase table from parallel text."""

import contextlib
import dataclasses
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data.alignment import DEFAULT_ALIGNER, DEFAULT_SYMMETRIZATION, check_aligner, longest_sentence
from keras_encdec.errors import FilePath
from keras_encdec.runtime.files import STANDARD_STREAM, check_distinct_files, open_output
from keras_encdec.runtime.progress import FileSummary, Progress, ShowProgress
from keras_encdec.runtime.unfinished import temporary_folder_beside, unfinished
from keras_encdec.runtime.workers import available_processors, processes
from keras_encdec.smt.extraction.extraction_job import ExtractionJob
from keras_encdec.smt.extraction.extraction_options import ExtractionOptions
from keras_encdec.smt.extraction.extraction_steps import forget_tables
from keras_encdec.smt.extraction.sentence_batches import SentenceBatches, SentencePairReader


@dataclasses.dataclass(frozen=True)
class ExtractSummary(FileSummary):
    """The result of `extract_phrase_table`.

    Attributes:
        lines: int. Number of phrase pairs written.
        seconds: float.
        output: the file.
        sentence_pairs: int. Number of sentence pairs that they were extracted from.
        occurrences: int. Number of phrase pairs extracted, each counted as often as it occurs.
        left_out: int. Number of lines left out: malformed, empty or too long.
    """

    sentence_pairs: int = 0
    occurrences: int = 0
    left_out: int = 0

    def __str__(self) -> str:
        left_out = f", {self.left_out:,} lines left out" if self.left_out else ""
        return (
            f"{self.lines:,} phrase pairs, {self.occurrences:,} occurrences, from {self.sentence_pairs:,} sentence "
            f"pairs{left_out} in {self.seconds:,.1f} s: {self._result}"
        )


def extract_phrase_table(
    input: FilePath,
    output: FilePath,
    options: ExtractionOptions | None = None,
    *,
    format: str = "parallel",
    source: FilePath | None = None,
    alignment: FilePath | None = None,
    progress: ShowProgress = Progress,
    **values: Any,
) -> ExtractSummary:
    """Aligns parallel text, extracts its phrase pairs and scores them, as Moses's training does.

    Lines are those of Moses: `source ||| target ||| p(f|e) lex(f|e) p(e|f) lex(e|f) ||| alignment ||| count(e)
    count(f) count(f, e) ||| |||`, where f is the source and e the target. Tokens are escaped, and lines are sorted by
    their bytes. See `score_phrases` for the scores and `extract_phrases` for what a phrase pair is.

    The phrase pairs are sorted, merged and counted on the disk, in a hidden folder beside the output. Memory holds the
    vocabulary, the pairs of aligned words and the aligner's model, but not the text. The output appears when it is
    complete.

    Processes are spawned, so a program must keep its own work under `if __name__ == "__main__":`, except with
    `number_of_processes=1`.

    Args:
        input: the target sentences of parallel text, or pairs in another format, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz. "-" is the standard output.
        options: ExtractionOptions. Defaults to `None`: those of the command.
        format: str. Name of a registered format, such as "parallel" or "tsv". Defaults to "parallel".
        source: the source sentences of parallel text. Optional.
        alignment: file of links as Moses writes them, `0-0 1-2`, a line for each line of the text. Defaults to
            `None`: the sentences are aligned.
        progress: callable of the work that is counted and the name of its units, which returns a Progress, such as
            `ReadingProgress`; called for each step. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Returns:
        ExtractSummary.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used, or not together.
        ImportError: when sil-thot is needed and is not installed.
        InputError: when the text or the alignment cannot be used.

    Example:

        extract_phrase_table("train.fr", "phrase-table.gz", source="train.en")
    """
    check_distinct_files(input, output, source, alignment)
    options = ExtractionOptions.combined(options, values)
    aligner, symmetrization = options.aligner or DEFAULT_ALIGNER, options.symmetrization or DEFAULT_SYMMETRIZATION
    if alignment is None:
        _check_aligner(aligner, options.max_sentence_length)
    else:
        for name in ("aligner", "symmetrization"):
            if getattr(options, name) is not None:
                raise ConfigurationError(f"found {{{name}}} with {{alignment}}, which is taken as it is")
    start = time.monotonic()
    with open_output(output) as file, _temporary_folder(output) as folder:
        sentences = SentenceBatches(folder)
        text = SentencePairReader(input, format, source, alignment, options)
        text.read(sentences, progress)
        number_of_processes = options.number_of_processes or available_processors()
        with processes(number_of_processes) as executor:
            job = ExtractionJob(executor, folder, progress, number_of_processes)
            if alignment is None:
                job.align(len(sentences.lengths), aligner)
            occurrences = job.extract(sentences.lengths, symmetrization, options.max_phrase_length)
            lines = job.score(file, options.smoothing)
        forget_tables()
    pairs = sum(sentences.lengths)
    return ExtractSummary(lines, time.monotonic() - start, output, pairs, occurrences, text.left_out)


def _check_aligner(aligner: str, max_sentence_length: int) -> None:
    check_aligner(aligner)
    longest = longest_sentence(aligner)
    if max_sentence_length > longest:
        raise ConfigurationError(
            "found {max_sentence_length}=%s, expected at most %s, the longest sentence that the aligner %s takes",
            max_sentence_length,
            longest,
            aligner,
        )


@contextlib.contextmanager
def _temporary_folder(output: FilePath) -> Iterator[str]:
    """Makes a temporary folder beside the output, as sorting takes several times the space of the output."""
    path = os.path.realpath(output)
    is_file = output != STANDARD_STREAM and (not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode))
    if is_file:
        with temporary_folder_beside(path) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="encdec-extract-") as folder, unfinished(folder):
        yield folder
