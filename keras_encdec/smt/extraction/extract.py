"""Extracts a Moses phrase table from parallel text."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import BinaryIO, TypeVar

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data.alignment import (
    DEFAULT_ALIGNER,
    DEFAULT_SYMMETRIZATION,
    check_aligner,
    longest_sentence,
    number_of_rounds,
)
from keras_encdec.errors import FilePath, explained
from keras_encdec.runtime.files import check_distinct_files, is_stream, is_url
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.progress import CountedWork, FileSummary, Progress, ShowProgress, counted
from keras_encdec.runtime.unfinished import temporary_folder, temporary_folder_beside, writing_temporary_files
from keras_encdec.runtime.workers import available_processors, in_order, processes
from keras_encdec.smt.extraction.count_smoothing import CountSmoothing
from keras_encdec.smt.extraction.extraction_options import ExtractionOptions
from keras_encdec.smt.extraction.extraction_steps import (
    ScoredRange,
    count_targets,
    extract_batch,
    forget_tables,
    score_range,
    targets_path,
    write_range,
    write_word_pairs,
)
from keras_encdec.smt.extraction.lexical_table import Integers, WordPairCounts
from keras_encdec.smt.extraction.phrase_runs import PAIRS_IN_PARTITION, Range, Run, plan_ranges
from keras_encdec.smt.extraction.sentence_batches import (
    DIRECTIONS,
    SentenceBatches,
    align_direction,
    read_sentence_pairs,
)


@dataclasses.dataclass(frozen=True)
class ExtractSummary(FileSummary):
    """The result of `extract_phrase_table`.

    Attributes:
        lines: int. Number of phrase pairs written.
        seconds, output: see `FileSummary`.
        sentence_pairs: int. Number of sentence pairs that they were extracted from.
        occurrences: int. Number of phrase pairs extracted, each counted as often as it occurs.
        left_out: int. Number of lines left out: malformed, empty or too long.
    """

    sentence_pairs: int = 0
    occurrences: int = 0
    left_out: int = 0

    @property
    def notices(self) -> list[str]:
        """Warnings for the user, as sentences."""
        if self.lines:
            return []
        return ["warning: the table is empty, as no phrases are aligned to each other; check the word alignment."]

    def __str__(self) -> str:
        left_out = f", {counted(self.left_out, 'lines')} left out" if self.left_out else ""
        pairs, occurrences = counted(self.lines, "phrase pairs"), counted(self.occurrences, "occurrences")
        sentences = f"{counted(self.sentence_pairs, 'sentence pairs')}{left_out}"
        return f"{pairs}, {occurrences}, from {sentences} in {self.seconds:,.1f} s: {self._result}"


def extract_phrase_table(
    input: FilePath,
    output: FilePath,
    options: ExtractionOptions | None = None,
    *,
    format: str = "parallel",
    source: FilePath | None = None,
    alignment: FilePath | None = None,
    progress: ShowProgress = Progress,
    **values: object,
) -> ExtractSummary:
    """Aligns parallel text, extracts its phrase pairs and scores them, as Moses's training does.

    Lines are those of Moses: `source ||| target ||| p(f|e) lex(f|e) p(e|f) lex(e|f) ||| alignment ||| count(e)
    count(f) count(f, e) ||| |||`, where f is the source and e the target. Tokens are escaped, and lines are sorted by
    their bytes. See `score_phrases` for the scores and `extract_phrases` for what a phrase pair is.

    The phrase pairs are sorted, merged and counted on disk, in a hidden folder next to the output. Memory holds the
    vocabulary, the pairs of aligned words and the aligner's model, but not the text. The output appears when it is
    complete.

    Processes are spawned, so a program must keep its own work under `if __name__ == "__main__":`, except with
    `number_of_processes=1`.

    Args:
        input: the target sentences of parallel text, or pairs in another format, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz. "-" means standard output.
        options: ExtractionOptions. Defaults to `None`: those of the command.
        format: str. Name of a registered format, such as "parallel" or "tsv". Defaults to "parallel".
        source: the source sentences of parallel text. Optional.
        alignment: file of links as Moses writes them, `0-0 1-2`, a line for each line of the text. Defaults to
            `None`: the sentences are aligned.
        progress: shows the progress, such as `ReadingProgress`. Defaults to `Progress`, which shows nothing.
        **values: options by name, which override those in `options`.

    Raises:
        ConfigurationError: a ValueError, for options that cannot be used or contradict one another.
        ImportError: if sil-thot is needed and is not installed.
        InputError: if the text or the alignment cannot be used.

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
                raise ConfigurationError(f"found {{{name}}} with {{alignment}}, whose links are used as they are")
    start = time.monotonic()
    with open_output(output) as file, _temporary_folder(output) as folder:
        sentences = SentenceBatches(folder)
        left_out = read_sentence_pairs(sentences, input, format, source, alignment, options, progress)
        number_of_processes = options.number_of_processes or available_processors()
        with processes(number_of_processes) as executor, contextlib.ExitStack() as stack:
            stack.callback(forget_tables)
            job = ExtractionJob(executor, folder, progress, number_of_processes)
            if alignment is None:
                job.align(len(sentences.lengths), aligner)
            occurrences = job.extract(sentences.lengths, symmetrization, options.max_phrase_length)
            lines = job.score(file, options.smoothing)
    pairs = sum(sentences.lengths)
    return ExtractSummary(lines, time.monotonic() - start, output, pairs, occurrences, left_out)


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
    """Makes a temporary folder next to the output, because sorting takes several times the space of the output."""
    if not is_stream(output) and not is_url(output):
        path = os.path.realpath(output)
        with explained(path, "to write temporary files next to it"), temporary_folder_beside(path) as folder:
            yield folder
        return
    with writing_temporary_files(), temporary_folder() as folder:
        yield folder


Item = TypeVar("Item")
Result = TypeVar("Result")

# WordPairCounts held in memory before they are added up.
_PARTS_ADDED_AT_ONCE = 16


class ExtractionJob:
    """The steps from sentences to a phrase table, in this order: `align`, `extract`, `score`.

    Args:
        executor: `concurrent.futures.Executor` that the steps run on, each on all its processes.
        folder: str. The folder of the SentenceBatches, where each step leaves files for the next.
        progress: see `extract_phrase_table`.
        number_of_processes: int. Number of processes of the executor.
    """

    def __init__(self, executor: Executor, folder: str, progress: ShowProgress, number_of_processes: int) -> None:
        self._executor, self._folder, self._progress = executor, folder, progress
        self._number_of_processes = number_of_processes
        self._runs: list[Run] = []

    def align(self, batches: int, aligner: str) -> None:
        """Aligns the sentences in both directions, one process for each direction."""
        work = CountedWork(number_of_rounds(aligner))
        with self._progress(work, "rounds of alignment") as shown:
            futures = [
                self._executor.submit(
                    align_direction, self._folder, batches, direction, aligner, _RoundCounter(self._folder)
                )
                for direction in DIRECTIONS
            ]
            running: Iterable[Future[None]] = futures
            while running:
                done, running = concurrent.futures.wait(
                    running, timeout=1, return_when=concurrent.futures.FIRST_EXCEPTION
                )
                for future in done:
                    future.result()
                if (done_now := _RoundCounter(self._folder).count()) > shown.count:
                    work.size_done = done_now
                    shown.add(done_now - shown.count)

    def extract(self, lengths: list[int], symmetrization: str, max_length: int) -> int:
        """Extracts the phrase pairs of all batches; `lengths` has the number of sentence pairs in each batch.

        Returns the number of phrase pairs, each counted as often as it occurs.
        """
        step = functools.partial(extract_batch, self._folder, symmetrization=symmetrization, max_length=max_length)
        occurrences = 0
        word_pairs: list[WordPairCounts] = []
        work = CountedWork(sum(lengths))
        with self._progress(work, "sentence pairs") as shown:
            for length, batch in zip(lengths, self._in_parallel(step, range(len(lengths))), strict=True):
                self._runs += batch.runs
                occurrences += batch.occurrences
                word_pairs.append(batch.word_pairs)
                if len(word_pairs) == _PARTS_ADDED_AT_ONCE:
                    word_pairs = [WordPairCounts.sum(word_pairs)]
                work.size_done += length
                shown.add(length)
        write_word_pairs(self._folder, WordPairCounts.sum(word_pairs))
        return occurrences

    def score(self, file: BinaryIO, smoothing: str) -> int:
        """Scores the extracted phrase pairs and writes the table; returns its number of lines."""
        ranges = plan_ranges(self._runs)
        scored = self._score_ranges(ranges)
        rows = np.array([scored_range.rows for scored_range in scored])
        counts_of_counts = np.sum([scored_range.counts_of_counts for scored_range in scored], axis=0).tolist()
        self._count_targets(rows)
        self._write_ranges(file, scored, rows, CountSmoothing(smoothing, counts_of_counts))
        return int(counts_of_counts[0])

    def _score_ranges(self, ranges: list[Range]) -> list[ScoredRange]:
        """Scores all ranges, except for the scores that need the counts of their targets, and removes the runs."""
        work = CountedWork(sum(part.size for part in ranges))
        scored: list[ScoredRange] = []
        step = functools.partial(score_range, self._folder, self._partitions)
        with self._progress(work, "phrase pairs") as shown:
            for part, scored_range in zip(ranges, self._in_parallel(step, enumerate(ranges)), strict=True):
                scored.append(scored_range)
                work.size_done += part.size
                shown.add(scored_range.lines)
        for run in self._runs:
            os.unlink(run.path)
        return scored

    def _count_targets(self, rows: Integers) -> None:
        """Counts the target phrases of all partitions, and removes the targets of the ranges."""
        for _ in self._in_parallel(functools.partial(count_targets, self._folder, rows), range(rows.shape[1])):
            pass
        for number in range(len(rows)):
            os.unlink(targets_path(self._folder, number))

    def _write_ranges(
        self, file: BinaryIO, scored: list[ScoredRange], rows: Integers, smoothing: CountSmoothing
    ) -> None:
        """Writes the finished lines of all ranges, in their order."""
        step = functools.partial(write_range, self._folder, rows=rows, smoothing=smoothing)
        work = CountedWork(sum(scored_range.lines for scored_range in scored))
        with self._progress(work, "lines") as shown:
            for path, scored_range in zip(self._in_parallel(step, range(len(scored))), scored, strict=True):
                with open(path, "rb") as lines:
                    shutil.copyfileobj(lines, file, 1 << 20)
                os.unlink(path)
                work.size_done += scored_range.lines
                shown.add(scored_range.lines)

    @property
    def _partitions(self) -> int:
        return 1 + sum(run.lines for run in self._runs) // PAIRS_IN_PARTITION

    def _in_parallel(self, step: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yields the results of a step for all items, in their order."""
        return in_order(self._executor, step, items, self._number_of_processes + 1)


class _RoundCounter:
    """Counts rounds of training in several processes: a byte for each in a file."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "rounds")

    def __call__(self) -> None:
        with open(self._path, "ab") as file:
            file.write(b".")

    def count(self) -> int:
        return os.path.getsize(self._path) if os.path.exists(self._path) else 0
