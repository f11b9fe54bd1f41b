"""Prepares pairs of words for training: unique, shuffled and on disk, with bounded memory."""

import contextlib
import json
import pathlib
import shutil
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from keras_encdec.data.prepared_pairs import IDS, LENGTHS, SHORTLISTS, SPELLINGS, STARTS, SUMMARY, Ids, PreparedPairs
from keras_encdec.errors import FilePath, InputError, explained
from keras_encdec.formats import open_output
from keras_encdec.formats.alignments import AlignedWordPair
from keras_encdec.formats.fields import text_in_place_of_words
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.open_output import write_file
from keras_encdec.runtime.progress import counted
from keras_encdec.runtime.unfinished import unfinished
from keras_encdec.text import END, FIRST_WORD, UNKNOWN, Vocabulary, most_frequent
from keras_encdec.text.vocabulary import (
    POSITION_WORDS,
    UNKNOWN_WORD,
    character_vocabulary,
    position_word_indices,
    spelled,
)

PARTS = "parts"
# Lengths are stored with the end of sequence, in 16 bits.
LONGEST = 2**16 - 2
PARTITIONS = 128  # one part is in memory at a time; for 10^8 pairs it takes about 50 MB


def prepare(
    pairs: Iterable[WordPair | AlignedWordPair],
    folder: FilePath,
    shortlist: int | tuple[int, int] = 15_000,
    max_length: int = 30,
    seed: int = 0,
    vocabularies: tuple[Vocabulary | None, Vocabulary | None] = (None, None),
    empty_sources: bool = False,
    position_words: bool = False,
    characters: tuple[int | None, int | None] = (None, None),
) -> tuple[PreparedPairs, Vocabulary, Vocabulary]:
    """Writes the unique pairs of an input in random order, and makes the vocabularies.

    A pair that occurs several times is kept once. Pairs with an empty side, and pairs with a side longer than
    `max_length`, are left out and counted. Memory holds the distinct words and one of 128 parts of the pairs.

    Args:
        pairs: iterable of `(source words, target words)`, lists of str; with `position_words` of `(source words,
            target words, links)`, the links being pairs of source position and target position.
        folder: path of the folder to make. An existing prepared set is replaced.
        shortlist: int, or a tuple of int for source and target. Number of words in each vocabulary: the most frequent
            words of the side, and `POSITION_WORDS` if they are used. Defaults to `15000`.
        max_length: int, 65534 or less. Maximum number of words of a phrase, without the end of sequence. Defaults to
            `30`.
        seed: int. Seed of the random order. Defaults to `0`.
        vocabularies: tuple of the source and the target Vocabulary to use. `None` in place of either makes a new one.
            Defaults to `(None, None)`.
        empty_sources: bool. Whether to keep pairs with an empty source, for a language model. Defaults to `False`.
        position_words: bool. Whether to replace each unknown target word with the word of `POSITION_WORDS` for its
            links, see `position_word_indices`. If a pair occurs with several alignments, the first is used.
            `POSITION_WORDS` are the last words of the target vocabulary. A given vocabulary must have them. Defaults to
            `False`.
        characters: tuple of int for source and target. Number of characters, the most frequent ones, of the vocabulary
            that words outside the shortlist are spelled with; `None` for a side without characters, or whose given
            vocabulary has characters. Defaults to `(None, None)`.

    Returns:
        tuple: PreparedPairs, the source Vocabulary and the target Vocabulary.

    Raises:
        InputError: if no pair is left, if a side has no word but `UNKNOWN_WORD`, if the folder has other files,
            or if the disk is full.
        ValueError: for a `max_length` above 65534, and for a text in place of a list of words.
    """
    if max_length > LONGEST:
        raise ValueError(f"found max_length={max_length}, expected {LONGEST} or less")
    folder = pathlib.Path(folder)
    shortlists = shortlist if isinstance(shortlist, tuple) else (shortlist, shortlist)
    with explained(folder, "to write the prepared pairs"), contextlib.ExitStack() as stack:
        _clear(folder)
        stack.enter_context(unfinished(folder))
        try:
            folder.mkdir(parents=True)
            spill = _Spill(folder / PARTS, seed, position_words)
            counts = spill.fill(pairs, max_length, empty_sources)
            source_side, target_side = spill.sides
            reserved = POSITION_WORDS if position_words else ()
            source = _vocabulary(vocabularies[0], source_side, shortlists[0], (), characters[0])
            target = _vocabulary(vocabularies[1], target_side, shortlists[1], reserved, characters[1])
            counts.update(_write(spill, folder, (source, target), np.random.default_rng(seed)))
            spill.folder.rmdir()
            _check_counts(counts, max_length)
            if vocabularies[0] is None:
                _check_words(source, source_side, "source")
            if vocabularies[1] is None:
                _check_words(target, target_side, "target")
            write_file(folder / SUMMARY, json.dumps(counts, indent=1).encode())
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return PreparedPairs(folder), source, target


def _vocabulary(
    given: Vocabulary | None, side: "_Side", size: int, reserved: Sequence[str], characters: int | None
) -> Vocabulary:
    """Returns the vocabulary of a side: the given one, or a new one of its words. See `prepare`."""
    vocabulary = most_frequent(side.counts(), size, reserved) if given is None else given
    if characters is not None and vocabulary.characters is None:
        vocabulary.characters = character_vocabulary(side.counts(), characters)
    return vocabulary


def _check_counts(counts: Mapping[str, int], max_length: int) -> None:
    if not counts["unique"]:
        raise InputError(
            f"found {counted(counts['read'], 'pairs')}, {counts['too_long']:,} longer than "
            f"{counted(max_length, 'words')} and {counts['empty']:,} with an empty side",
            "expected at least one to train on",
            "check the input file and its format, or raise --max_length",
        )


def _check_words(vocabulary: Vocabulary, side: "_Side", name: str) -> None:
    if not len(vocabulary) and UNKNOWN_WORD in side.numbers:
        found = f"found only {UNKNOWN_WORD} on the {name} side"
        raise InputError(found, "expected words to train on", "check the input file and its format")


def _clear(folder: pathlib.Path) -> None:
    """Removes a prepared set; raises InputError if the folder has other files."""
    if folder.is_dir():
        names = {entry.name for entry in folder.iterdir() if not entry.name.startswith(f".{SUMMARY}.")}
        others = sorted(names - {IDS, LENGTHS, STARTS, SUMMARY, PARTS, *SPELLINGS.values()})
        if others:
            found = f"found {others[0]!r} in it"
            expected = "expected a prepared set, an empty directory or no directory"
            raise InputError(found, expected, "move it elsewhere, or give another directory", folder)
        shutil.rmtree(folder)


class _Side:
    """Numbers the words of one side in the order in which they first occur, and counts them."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.occurrences = array("q")

    def number(self, words: Sequence[str]) -> list[int]:
        """Returns the number of each word, and counts the words."""
        numbers, occurrences = self.numbers, self.occurrences
        row: list[int] = []
        if isinstance(words, str):
            raise text_in_place_of_words(words)
        for word in words:
            number = numbers.get(word)
            if number is None:
                number = numbers[word] = len(occurrences)
                occurrences.append(0)
            occurrences[number] += 1
            row.append(number)
        return row

    def counts(self) -> dict[str, int]:
        return dict(zip(self.numbers, self.occurrences, strict=True))

    def ids(self, vocabulary: Vocabulary) -> Ids:
        """Returns an array of the ids of all words, by the number of the word.

        With characters, words outside the vocabulary have their own ids, in the order of their numbers.
        """
        ids = np.array([vocabulary.encode([word])[0] for word in self.numbers], np.int32)
        if vocabulary.characters is not None:
            rare = ids == UNKNOWN
            ids[rare] = FIRST_WORD + len(vocabulary) + np.arange(np.count_nonzero(rare))
        return ids


class _Spill:
    """Stores pairs, as the numbers of their words, in parts on disk. Equal pairs are in the same part.

    With position words, the indices of the position words of all target words follow the pair.
    """

    def __init__(self, folder: pathlib.Path, seed: int, position_words: bool) -> None:
        folder.mkdir()
        self.folder, self._seed, self._position_words = folder, seed, position_words
        self.sides = _Side(), _Side()
        self._parts = [folder / str(i) for i in range(PARTITIONS)]

    def fill(self, pairs: Iterable[WordPair | AlignedWordPair], max_length: int, empty_sources: bool) -> dict[str, int]:
        """Writes the pairs to the parts; returns how many were read, too long and empty."""
        counts = {"read": 0, "too_long": 0, "empty": 0}
        source_side, target_side = self.sides
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(part, "wb")) for part in self._parts]
            for source, target, *links in pairs:
                counts["read"] += 1
                if not target or not source and not empty_sources:
                    counts["empty"] += 1
                elif len(source) > max_length or len(target) > max_length:
                    counts["too_long"] += 1
                else:
                    numbers = [*source_side.number(source), *target_side.number(target)]
                    record = array("i", [len(source), len(target), *numbers]).tobytes()
                    file = files[zlib.crc32(record, self._seed) % PARTITIONS]
                    file.write(record)
                    if self._position_words:
                        file.write(array("i", position_word_indices(links[0], len(target))).tobytes())
        return counts

    def parts(self) -> Iterator[list[Ids]]:
        """Yields the distinct records of each part, as lists of int32 arrays, and removes the part."""
        for part in self._parts:
            flat = np.fromfile(part, np.int32)
            data, position = flat.tobytes(), 0
            unique: dict[bytes, bytes] = {}
            while position < len(flat):
                end = position + 2 + int(flat[position]) + int(flat[position + 1])
                after = end + self._position_words * int(flat[position + 1])
                unique.setdefault(data[4 * position : 4 * end], data[4 * end : 4 * after])
                position = after
            part.unlink()
            yield [np.frombuffer(pair + position_words, np.int32) for pair, position_words in unique.items()]


def _write(
    spill: _Spill, folder: pathlib.Path, vocabularies: tuple[Vocabulary, Vocabulary], random: np.random.Generator
) -> dict[str, int]:
    """Maps the records to ids and appends them, in random order, to the files of the prepared set.

    The part of a pair depends on a checksum, so shuffling each part gives a random order of all pairs. Returns the
    numbers of unique pairs, tokens and unknown words.
    """
    totals = dict.fromkeys(("unique", "source_tokens", "target_tokens", "source_unknown", "target_unknown"), 0)
    all_ids = [side.ids(vocabulary) for side, vocabulary in zip(spill.sides, vocabularies, strict=True)]
    # The first ids of words outside the shortlists.
    first_rare = [FIRST_WORD + len(vocabulary) for vocabulary in vocabularies]
    for name, side, ids, first, vocabulary in zip(
        SPELLINGS, spill.sides, all_ids, first_rare, vocabularies, strict=True
    ):
        if vocabulary.characters is not None:
            rare = (word for word, number in zip(side.numbers, ids, strict=True) if number >= first)
            with open_output(folder / SPELLINGS[name]) as file:
                np.save(file, spelled(rare, vocabulary.characters).astype(np.uint16))
            totals[SHORTLISTS[name]] = len(vocabulary)
    position_ids = np.array(vocabularies[1].encode(POSITION_WORDS), np.int32)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(folder / name, "wb")) for name in (IDS, LENGTHS, STARTS)]
        start = 0
        for records in spill.parts():
            if not records:
                continue
            rows: list[tuple[Ids, Ids]] = []
            for i in random.permutation(len(records)):
                source, target, position_words = _parts_of(records[i])
                source_ids, target_ids = all_ids[0][source], all_ids[1][target]
                totals["source_unknown"] += _count_unknown(source_ids, first_rare[0])
                totals["target_unknown"] += _count_unknown(target_ids, first_rare[1])
                if len(position_words):
                    target_ids = np.where(target_ids == UNKNOWN, position_ids[position_words], target_ids)
                rows.append((source_ids, target_ids))
            lengths = _append(rows, start, *files)
            tokens = lengths.sum(axis=0, dtype=np.int64).tolist()
            start += sum(tokens)
            totals["unique"] += len(rows)
            totals["source_tokens"] += tokens[0]
            totals["target_tokens"] += tokens[1]
    return totals


def _parts_of(record: Ids) -> tuple[Ids, Ids, Ids]:
    """Returns the numbers of the source's words and of the target's, and the indices of the position words."""
    source_end = 2 + record[0]
    target_end = source_end + record[1]
    return record[2:source_end], record[source_end:target_end], record[target_end:]


def _count_unknown(ids: Ids, first_rare: int) -> int:
    return int(((ids == UNKNOWN) | (ids >= first_rare)).sum())


def _append(
    rows: Sequence[tuple[Ids, Ids]], start: int, ids: BinaryIO, lengths: BinaryIO, starts: BinaryIO
) -> npt.NDArray[np.uint16]:
    """Appends pairs to the files of the prepared set, whose ids begin at `start`; returns their lengths `(n, 2)`."""
    widths = np.array([(len(source) + 1, len(target) + 1) for source, target in rows], np.uint16)
    ends = start + np.cumsum(widths.sum(axis=1, dtype=np.int64))
    flat = np.concatenate([part for source, target in rows for part in (source, [END], target, [END])])
    # `tofile` does not report a full disk.
    ids.write(flat.astype(np.int32).tobytes())
    lengths.write(widths.tobytes())
    starts.write(np.concatenate([[start], ends[:-1]]).astype(np.int64).tobytes())
    return widths
