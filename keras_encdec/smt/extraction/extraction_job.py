"""The steps of making a phrase table that follow reading the text."""

import concurrent.futures
import functools
import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from keras_encdec.runtime.progress import CountedWork, ShowProgress
from keras_encdec.runtime.workers import in_order
from keras_encdec.smt.extraction.count_smoothing import CountSmoothing
from keras_encdec.smt.extraction.lexical_table import LexicalTable, WordPairCounts
from keras_encdec.smt.extraction.phrase_extraction import phrase_pair_keys
from keras_encdec.smt.extraction.phrase_runs import (
    PAIRS_IN_PARTITION,
    Range,
    Run,
    count_partition,
    merged,
    plan_ranges,
    read_target_counts,
    write_runs,
    write_targets,
)
from keras_encdec.smt.extraction.phrase_scoring import score_merged
from keras_encdec.smt.extraction.sentence_batches import (
    DIRECTIONS,
    align_direction,
    read_links,
    read_pairs,
    read_vocabulary,
    remove_batch,
)


class ExtractedBatch(NamedTuple):
    """The result of `extract_batch`.

    Attributes:
        runs: list of Run.
        word_pairs: WordPairCounts.
        occurrences: int. Phrase pairs, counted as often as they occur.
    """

    runs: list[Run]
    word_pairs: WordPairCounts
    occurrences: int


class ScoredRange(NamedTuple):
    """The result of `score_range`.

    Attributes:
        counts_of_counts: int64 array, see `CountSmoothing`.
        rows: int64 array `(partitions,)`. Number of the range's phrase pairs whose target is in each partition.
    """

    counts_of_counts: np.ndarray
    rows: np.ndarray

    @property
    def lines(self) -> int:
        """The number of lines in the range."""
        return int(self.counts_of_counts[0])


def extract_batch(folder: str, number: int, symmetrization: str, max_length: int) -> ExtractedBatch:
    """Extracts the phrase pairs of a batch of sentences, and removes the batch.

    Args:
        folder: str. The folder of the SentenceBatches.
        number: int. The number of the batch.
        symmetrization: str. See `read_links`.
        max_length: int. Maximum number of words in a phrase.
    """
    sentences = [
        (*words, links)
        for words, links in zip(read_pairs(folder, number), read_links(folder, number, symmetrization), strict=True)
    ]
    word_pairs = WordPairCounts.of_sentences(sentences, _vocabulary(folder))
    occurrences = 0

    def keys():
        nonlocal occurrences
        for sentence in sentences:
            for key in phrase_pair_keys(*sentence, max_length):
                occurrences += 1
                yield key

    runs = write_runs(keys(), os.path.join(folder, f"run.{number}"))
    remove_batch(folder, number)
    return ExtractedBatch(runs, word_pairs, occurrences)


def write_word_pairs(folder: str, word_pairs: WordPairCounts) -> None:
    """Writes the counts of aligned word pairs, from which lexical weights are computed."""
    np.save(os.path.join(folder, "word_pairs.npy"), word_pairs.pairs)
    np.save(os.path.join(folder, "word_pair_counts.npy"), word_pairs.counts)


def score_range(folder: str, number: int, part: Range, partitions: int) -> ScoredRange:
    """Merges and scores a range, except for the scores that need the counts of its targets.

    Args:
        folder: str.
        number: int. The number of the range.
        part: Range.
        partitions: int. Number of partitions of the target phrases.
    """
    lexical = _lexical_table(folder)
    scored = score_merged(merged(part), lexical)
    lexical.forget()
    rows, order = write_targets(scored.targets, scored.joint, partitions, targets_path(folder, number))
    with open(os.path.join(folder, f"scored.{number}"), "wb") as file:
        pickle.dump((scored, order), file, protocol=pickle.HIGHEST_PROTOCOL)
    return ScoredRange(scored.counts_of_counts(), rows)


def count_targets(folder: str, rows: np.ndarray, partition: int) -> None:
    """Counts the target phrases of a partition.

    Args:
        folder: str.
        rows: int64 array `(ranges, partitions)`: the rows of all ScoredRanges.
        partition: int.
    """
    paths = [targets_path(folder, number) for number in range(len(rows))]
    count_partition(paths, rows, partition, _totals_path(folder, partition))


def write_range(folder: str, number: int, rows: np.ndarray, smoothing: CountSmoothing) -> str:
    """Writes the finished lines of a range.

    Args:
        folder: str.
        number: int. The number of the range.
        rows: int64 array `(ranges, partitions)`, as for `count_targets`.
        smoothing: CountSmoothing.

    Returns:
        str. The path of the file.
    """
    scored_path, path = os.path.join(folder, f"scored.{number}"), os.path.join(folder, f"table.{number}")
    with open(scored_path, "rb") as file:
        scored, order = pickle.load(file)
    os.unlink(scored_path)
    paths = [_totals_path(folder, partition) for partition in range(rows.shape[1])]
    lines = scored.lines(*read_target_counts(paths, rows, number, order), smoothing)
    with open(path, "wb") as file:
        file.writelines(line + b"\n" for line in lines)
    return path


def targets_path(folder: str, number: int) -> str:
    """The path of the file with the targets of a range."""
    return os.path.join(folder, f"targets.{number}")


def forget_tables() -> None:
    """Frees the vocabulary and the lexical table that a process keeps between calls."""
    _vocabulary.cache_clear()
    _lexical_table.cache_clear()


def _totals_path(folder, partition):
    return os.path.join(folder, f"totals.{partition}")


@functools.lru_cache(maxsize=1)
def _vocabulary(folder):
    return read_vocabulary(folder)


@functools.lru_cache(maxsize=1)
def _lexical_table(folder):
    names = "word_pairs.npy", "word_pair_counts.npy"
    arrays = (np.load(os.path.join(folder, name), mmap_mode="r") for name in names)
    return LexicalTable(_vocabulary(folder), WordPairCounts(*arrays))


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
        """Aligns in both directions at the same time.

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
            running: Iterable[Any] = futures
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
            lengths: list of int. Sentence pairs of each batch.
            symmetrization: str. One of `keras_encdec.data.alignment.SYMMETRIZATIONS`.
            max_length: int. Most words in a phrase.

        Returns:
            int. Phrase pairs, counted as often as they occur.
        """
        step = functools.partial(extract_batch, self._folder, symmetrization=symmetrization, max_length=max_length)
        occurrences, word_pairs = 0, []
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
        """Writes the table of the phrase pairs that were extracted.

        Args:
            file: binary file to write to.
            smoothing: str. One of `keras_encdec.smt.extraction.extraction_options.SMOOTHINGS`.

        Returns:
            int. Lines of the table.
        """
        ranges = plan_ranges(self._runs)
        scored = self._score_ranges(ranges)
        rows = np.array([scored_range.rows for scored_range in scored]).reshape(len(ranges), self._partitions)
        count_of_counts = np.sum([scored_range.counts_of_counts for scored_range in scored], axis=0).tolist()
        self._count_targets(rows)
        self._write_ranges(file, scored, rows, CountSmoothing(smoothing, count_of_counts))
        return count_of_counts[0]

    def _score_ranges(self, ranges: list[Range]) -> list[ScoredRange]:
        """Scores all ranges, except for the scores that need the counts of their targets, and removes the runs."""
        work = CountedWork(sum(part.size for part in ranges))
        scored = []
        step = functools.partial(_score_numbered, self._folder, self._partitions)
        with self._progress(work, "phrase pairs") as shown:
            for part, scored_range in zip(ranges, self._in_parallel(step, enumerate(ranges)), strict=True):
                scored.append(scored_range)
                work.bytes_read += part.size
                shown.add(scored_range.lines)
        for run in self._runs:
            os.unlink(run.path)
        return scored

    def _count_targets(self, rows: np.ndarray) -> None:
        """Counts the target phrases of all partitions, and removes the targets of the ranges."""
        for _ in self._in_parallel(functools.partial(count_targets, self._folder, rows), range(rows.shape[1])):
            pass
        for number in range(len(rows)):
            os.unlink(targets_path(self._folder, number))

    def _write_ranges(
        self, file: BinaryIO, scored: list[ScoredRange], rows: np.ndarray, smoothing: CountSmoothing
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

    def _in_parallel(self, step: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return in_order(self._executor, step, items, self._number_of_processes + 1)


class _RoundCounter:
    """Counts rounds of training in several processes: a byte for each in a file."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "rounds")

    def __call__(self) -> None:
        with open(self._path, "ab") as file:
            file.write(b".")

    def count(self) -> int:
        """The number of rounds so far."""
        return os.path.getsize(self._path) if os.path.exists(self._path) else 0


def _score_numbered(folder: str, partitions: int, numbered: tuple[int, Range]) -> ScoredRange:
    return score_range(folder, *numbered, partitions)
