"""The steps of extraction that run side by side: each reads files of a folder and leaves others there."""

import functools
import os
import pickle
from typing import NamedTuple

import numpy as np

from keras_encdec.smt.count_smoothing import CountSmoothing
from keras_encdec.smt.lexical_table import LexicalTable, WordPairCounts
from keras_encdec.smt.phrase_extraction import phrase_pair_keys
from keras_encdec.smt.phrase_runs import Range, Run, merged, write_runs
from keras_encdec.smt.phrase_scoring import score_merged
from keras_encdec.smt.sentence_batches import read_links, read_pairs, read_vocabulary, remove_batch
from keras_encdec.smt.target_counts import count_partition, read_target_counts, write_targets


class ExtractedBatch(NamedTuple):
    """What a batch of sentence pairs has given.

    Attributes:
        runs: list of Run.
        word_pairs: WordPairCounts.
        occurrences: int. Phrase pairs, counted as often as they occur.
    """

    runs: list[Run]
    word_pairs: WordPairCounts
    occurrences: int


class ScoredRange(NamedTuple):
    """What a range of the table has given.

    Attributes:
        counts_of_counts: int64 array, see `CountSmoothing`.
        rows: int64 array. Phrase pairs of the range whose target is in each partition.
    """

    counts_of_counts: np.ndarray
    rows: np.ndarray

    @property
    def lines(self) -> int:
        """Lines of the range."""
        return int(self.counts_of_counts[0])


def extract_batch(folder: str, number: int, symmetrization: str, max_length: int) -> ExtractedBatch:
    """Extracts the phrase pairs of a batch of sentences, and removes the batch.

    Args:
        folder: str. Of SentenceBatches.
        number: int. The batch's.
        symmetrization: str. See `read_links`.
        max_length: int. Most words in a phrase.
    """
    sentences = [
        (*words, links)
        for words, links in zip(
            read_pairs(folder, number), read_links(folder, number, symmetrization), strict=True
        )
    ]  # fmt: skip
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
    """Writes what the lexical weights are computed from."""
    np.save(os.path.join(folder, "word_pairs.npy"), word_pairs.pairs)
    np.save(os.path.join(folder, "word_pair_counts.npy"), word_pairs.counts)


def score_range(folder: str, number: int, part: Range, partitions: int) -> ScoredRange:
    """Merges and scores a range, but for what its targets' counts are needed for.

    Args:
        folder: str.
        number: int. The range's.
        part: Range.
        partitions: int. Partitions of target phrases.
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
        number: int. The range's.
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
    """The file with the targets of a range."""
    return os.path.join(folder, f"targets.{number}")


def forget_tables() -> None:
    """Frees what a process has read for many calls."""
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
