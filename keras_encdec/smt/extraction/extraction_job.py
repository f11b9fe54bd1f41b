"""The steps of making a phrase table that follow reading the text, each on all processes."""

import concurrent.futures
import functools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import BinaryIO, TypeVar

import numpy as np

from keras_encdec.runtime.progress import CountedWork, ShowProgress
from keras_encdec.runtime.workers import in_order
from keras_encdec.smt.extraction.count_smoothing import CountSmoothing
from keras_encdec.smt.extraction.extraction_steps import (
    ScoredRange,
    count_targets,
    extract_batch,
    score_range,
    targets_path,
    write_range,
    write_word_pairs,
)
from keras_encdec.smt.extraction.lexical_table import Integers, WordPairCounts
from keras_encdec.smt.extraction.phrase_runs import PAIRS_IN_PARTITION, Range, Run, plan_ranges
from keras_encdec.smt.extraction.sentence_batches import DIRECTIONS, align_direction

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
        """Aligns the sentences in both directions, one process for each direction.

        Args:
            batches: int. Number of batches.
            aligner: str. One of `keras_encdec.data.alignment.ALIGNERS`.
        """
        with self._progress(CountedWork(0), "rounds of alignment") as shown:
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
                shown.add(_RoundCounter(self._folder).count() - shown.count)

    def extract(self, lengths: list[int], symmetrization: str, max_length: int) -> int:
        """Extracts the phrase pairs of all batches.

        Args:
            lengths: list of int. Number of sentence pairs in each batch.
            symmetrization: str. One of `keras_encdec.data.alignment.SYMMETRIZATIONS`.
            max_length: int. Maximum number of words in a phrase.

        Returns:
            int. Number of phrase pairs extracted, each counted as often as it occurs.
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
                work.bytes_read += length
                shown.add(length)
        write_word_pairs(self._folder, WordPairCounts.sum(word_pairs))
        return occurrences

    def score(self, file: BinaryIO, smoothing: str) -> int:
        """Scores the extracted phrase pairs and writes the table.

        Args:
            file: binary file to write to.
            smoothing: str. One of `keras_encdec.smt.extraction.count_smoothing.SMOOTHINGS`.

        Returns:
            int. Number of lines in the table.
        """
        ranges = plan_ranges(self._runs)
        scored = self._score_ranges(ranges)
        rows = np.array([scored_range.rows for scored_range in scored]).reshape(len(ranges), self._partitions)
        counts_of_counts = np.sum([scored_range.counts_of_counts for scored_range in scored], axis=0).tolist()
        self._count_targets(rows)
        self._write_ranges(file, scored, rows, CountSmoothing(smoothing, counts_of_counts))
        return counts_of_counts[0]

    def _score_ranges(self, ranges: list[Range]) -> list[ScoredRange]:
        """Scores all ranges, except for the scores that need the counts of their targets, and removes the runs."""
        work = CountedWork(sum(part.size for part in ranges))
        scored: list[ScoredRange] = []
        step = functools.partial(_score_numbered, self._folder, self._partitions)
        with self._progress(work, "phrase pairs") as shown:
            for part, scored_range in zip(ranges, self._in_parallel(step, enumerate(ranges)), strict=True):
                scored.append(scored_range)
                work.bytes_read += part.size
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
                work.bytes_read += scored_range.lines
                shown.add(scored_range.lines)

    @property
    def _partitions(self) -> int:
        """The number of partitions of the target phrases."""
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
        """Returns the number of rounds so far."""
        return os.path.getsize(self._path) if os.path.exists(self._path) else 0


def _score_numbered(folder: str, partitions: int, numbered: tuple[int, Range]) -> ScoredRange:
    return score_range(folder, *numbered, partitions)
