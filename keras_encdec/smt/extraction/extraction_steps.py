"""Steps of making a phrase table: each works on a batch of sentences, a range of sources or a partition of targets."""

import functools
import os
import pickle
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from keras_encdec.smt.extraction.count_smoothing import CountSmoothing
from keras_encdec.smt.extraction.lexical_table import Integers, LexicalTable, WordPairCounts
from keras_encdec.smt.extraction.phrase_extraction import phrase_pair_keys
from keras_encdec.smt.extraction.phrase_runs import (
    Range,
    Run,
    count_partition,
    merged,
    read_target_counts,
    write_runs,
    write_targets,
)
from keras_encdec.smt.extraction.phrase_scoring import score_merged
from keras_encdec.smt.extraction.sentence_batches import read_links, read_pairs, read_vocabulary, remove_batch


class ExtractedBatch(NamedTuple):
    """The result of `extract_batch`.

    Attributes:
        runs: list of Run.
        word_pairs: WordPairCounts.
        occurrences: int. Number of phrase pairs extracted, each counted as often as it occurs.
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

    counts_of_counts: Integers
    rows: Integers

    @property
    def lines(self) -> int:
        """The number of lines in the range."""
        return int(self.counts_of_counts[0])


def extract_batch(folder: str, number: int, symmetrization: str, max_length: int) -> ExtractedBatch:
    """Extracts the phrase pairs of a batch of sentences in the folder of the SentenceBatches, and removes the batch."""
    sentences = [
        (*words, links)
        for words, links in zip(read_pairs(folder, number), read_links(folder, number, symmetrization), strict=True)
    ]
    word_pairs = WordPairCounts.of_sentences(sentences, read_vocabulary(folder))
    occurrences = 0

    def keys() -> Iterator[bytes]:
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


def score_range(folder: str, partitions: int, numbered: tuple[int, Range]) -> ScoredRange:
    """Merges and scores a range, given with its number, except for the scores that need the counts of its targets."""
    number, part = numbered
    lexical = _lexical_table(folder)
    scored = score_merged(merged(part), lexical)
    lexical.forget()
    rows, order = write_targets(scored.targets, scored.joint, partitions, targets_path(folder, number))
    with open(os.path.join(folder, f"scored.{number}"), "wb") as file:
        pickle.dump((scored, order), file, protocol=pickle.HIGHEST_PROTOCOL)
    return ScoredRange(scored.counts_of_counts(), rows)


def count_targets(folder: str, rows: Integers, partition: int) -> None:
    """Counts the target phrases of a partition; `rows`, `(ranges, partitions)`, are those of all ScoredRanges."""
    paths = [targets_path(folder, number) for number in range(len(rows))]
    count_partition(paths, rows, partition, _totals_path(folder, partition))


def write_range(folder: str, number: int, rows: Integers, smoothing: CountSmoothing) -> str:
    """Writes the finished lines of a range, and returns the path of the file; `rows` are as for `count_targets`."""
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
    """Returns the path of the file with the targets of a range."""
    return os.path.join(folder, f"targets.{number}")


def forget_tables() -> None:
    """Frees the vocabulary and the lexical table that a process keeps between calls."""
    read_vocabulary.cache_clear()
    _lexical_table.cache_clear()


def _totals_path(folder: str, partition: int) -> str:
    return os.path.join(folder, f"totals.{partition}")


@functools.lru_cache(maxsize=1)
def _lexical_table(folder: str) -> LexicalTable:
    names = "word_pairs.npy", "word_pair_counts.npy"
    arrays = (np.load(os.path.join(folder, name), mmap_mode="r") for name in names)
    return LexicalTable(read_vocabulary(folder), WordPairCounts(*arrays))
