"""Parallel text to a Moses phrase table."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from typing import Any

import numpy as np

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data.alignment import (
    DEFAULT_ALIGNER,
    DEFAULT_SYMMETRIZATION,
    check_aligner,
    longest_sentence,
)
from keras_encdec.data.pairs import WordPair, record_words
from keras_encdec.errors import InputError
from keras_encdec.file_summary import FileSummary
from keras_encdec.formats.encodings import FileEncoding, unencodable
from keras_encdec.formats.escaping import escape
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.files import STANDARD_STREAM, check_distinct_files, open_output
from keras_encdec.formats.pair_format import Record
from keras_encdec.formats.registry import pair_format
from keras_encdec.formats.unfinished import temporary_folder_beside, unfinished
from keras_encdec.formats.word_links import LinksLine, links_beside
from keras_encdec.parallel import available_processors, in_order, processes
from keras_encdec.progress import CountedInput, CountedWork, Progress
from keras_encdec.smt.count_smoothing import CountSmoothing, check_smoothing
from keras_encdec.smt.extract_steps import (
    count_targets,
    extract_batch,
    forget_tables,
    score_range,
    targets_path,
    write_range,
    write_word_pairs,
)
from keras_encdec.smt.lexical_table import WordPairCounts
from keras_encdec.smt.phrase_extraction import MAX_PHRASE_LENGTH
from keras_encdec.smt.phrase_runs import plan_ranges
from keras_encdec.smt.sentence_batches import DIRECTIONS, SentenceBatches, align_direction
from keras_encdec.smt.target_counts import PAIRS_IN_PARTITION
from keras_encdec.text.tokenizer import Tokenizer

MAX_SENTENCE_LENGTH = 100
# Counts of word pairs in memory before they are added up.
_PARTS_ADDED_AT_ONCE = 16

ShowProgress = Callable[[CountedInput, str], Progress]


@dataclasses.dataclass(frozen=True)
class ExtractSummary(FileSummary):
    """What `extract_phrase_table` did.

    Attributes:
        lines: int. Phrase pairs written.
        seconds: float.
        output: the file.
        sentence_pairs: int. Sentence pairs that they are from.
        occurrences: int. Phrase pairs, counted as often as they occur.
        left_out: int. Lines that were left out: malformed, empty or too long.
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
    format: str = "parallel",
    *,
    source: FilePath | None = None,
    alignment: FilePath | None = None,
    aligner: str = DEFAULT_ALIGNER,
    symmetrization: str = DEFAULT_SYMMETRIZATION,
    max_phrase_length: int = MAX_PHRASE_LENGTH,
    max_sentence_length: int = MAX_SENTENCE_LENGTH,
    smoothing: str = "none",
    tokenization: dict[str, Any] | None = None,
    encoding: str | None = None,
    on_error: str = "stop",
    number_of_processes: int | None = None,
    progress: ShowProgress = Progress,
) -> ExtractSummary:
    """Aligns parallel text, extracts its phrase pairs and scores them, as Moses's training does.

    Lines are those of Moses: `source ||| target ||| p(f|e) lex(f|e) p(e|f) lex(e|f) ||| alignment ||| count(e)
    count(f) count(f, e) ||| |||`, f the source and e the target, tokens escaped, sorted by their bytes. See
    `score_phrases` for the scores and `extract_phrases` for what a phrase pair is.

    The phrase pairs are sorted, merged and counted on the disk, in a hidden folder beside the output: memory does not
    grow with the text, but for its words, the pairs of words that are aligned to one another, and what the aligner
    holds. The output appears when it is complete.

    Processes are started afresh, so a program keeps its own work under `if __name__ == "__main__":` unless it asks for
    one process only.

    Args:
        input: the target sentences of parallel text, or pairs in another format, plain or gzipped.
        output: file to write, gzipped if its name ends in .gz. "-" is the standard output.
        format: str. Name of a registered format, such as "parallel" or "tsv". Defaults to "parallel".
        source: the source sentences of parallel text. Optional.
        alignment: file of links as Moses writes them, `0-0 1-2`, a line for each line of the text. Defaults to
            `None`: the sentences are aligned.
        aligner: str. One of `keras_encdec.data.alignment.ALIGNERS`. Defaults to "fast_align".
        symmetrization: str. One of `keras_encdec.data.alignment.SYMMETRIZATIONS`, how the two directions are joined.
            Defaults to "grow_diag_final_and".
        max_phrase_length: int. Most words in a phrase, on either side. Defaults to `7`, Moses's default.
        max_sentence_length: int. Most words in a sentence; longer ones are an error. Defaults to `100`.
        smoothing: str. "none", "good_turing" or "kneser_ney": see `CountSmoothing`. Defaults to "none".
        tokenization: dict of arguments of `Tokenizer`, for raw text. Defaults to `None`: words are separated by spaces.
        encoding: str. Encoding of the text and of the output. Defaults to `None`: UTF-8, and other bytes are an error.
        on_error: str. "stop" raises at a line that is malformed, empty on one side or too long, "keep" leaves it out
            and counts it. Defaults to "stop".
        number_of_processes: int. Defaults to `None`: as many as there are processors.
        progress: callable of what is counted and its name, which gives a Progress, such as `ReadingProgress`; called
            for each step. Defaults to `Progress`, which shows nothing.

    Returns:
        ExtractSummary.

    Raises:
        ConfigurationError: a ValueError, for arguments that cannot be used.
        ImportError: when sil-thot is needed and is not installed.
        InputError: when the text or the alignment cannot be used.

    Example:

        extract_phrase_table("train.fr", "phrase-table.gz", source="train.en")
    """
    check_distinct_files(input, output, source, alignment)
    check_smoothing(smoothing)
    for name, value in (("max_phrase_length", max_phrase_length), ("max_sentence_length", max_sentence_length)):
        if value < 1:
            raise ConfigurationError(f"found {{{name}}}=%s, expected 1 or more", value)
    if alignment is None:
        check_aligner(aligner, symmetrization)
        if max_sentence_length > longest_sentence(aligner):
            raise ConfigurationError(
                "found {max_sentence_length}=%s, expected at most %s, the longest sentence that the aligner %s takes",
                max_sentence_length, longest_sentence(aligner), aligner,
            )  # fmt: skip
    start = time.monotonic()
    with open_output(output) as file, _folder(output) as folder:
        sentences = SentenceBatches(folder)
        text = _Text(input, format, source, alignment, tokenization, encoding, on_error, max_sentence_length)
        text.read(sentences, progress)
        with processes(number_of_processes or available_processors()) as executor:
            job = _Job(executor, folder, progress, number_of_processes or available_processors())
            if alignment is None:
                job.align(len(sentences.lengths), aligner)
            occurrences = job.extract(sentences.lengths, symmetrization, max_phrase_length)
            lines = job.score(file, smoothing)
        forget_tables()
    pairs = sum(sentences.lengths)
    return ExtractSummary(lines, time.monotonic() - start, output, pairs, occurrences, text.left_out)


class _Text:
    """Parallel text, as it is read."""

    def __init__(self, path, format, source, alignment, tokenization, encoding, on_error, max_length):
        self.left_out = 0
        self._path, self._format, self._source, self._alignment = path, pair_format(format), source, alignment
        self._tokenizer = None if tokenization is None else Tokenizer(**tokenization)
        self._encoding, self._encoding_name, self._on_error = FileEncoding(encoding), encoding, on_error
        self._max_length = max_length

    def read(self, sentences: SentenceBatches, progress: ShowProgress) -> None:
        """Adds all sentence pairs."""
        with self._format.open_reader(self._path, self._source, self._encoding_name, self._on_error) as reader:
            reader.kept = "leave such lines out"
            # Text is tokenized ahead of what else is known of a line, which waits here.
            aside: collections.deque[tuple[LinksLine | None, int]] = collections.deque()
            if self._alignment:
                records: Iterable[tuple[Record, LinksLine | None]] = links_beside(reader, self._alignment)
            else:
                records = ((record, None) for record in reader if record.problem is None)
            with progress(reader.lines, "sentence pairs") as shown:
                for pair in record_words(_texts(records, aside, reader), self._format, self._tokenizer):
                    self._add(sentences, pair, *aside.popleft())
                    shown.add(1)
            self.left_out += reader.malformed
            if not sentences.vocabulary.keys() - {b"NULL"}:
                raise InputError(
                    "found no sentence pair to extract phrases from", "expected at least one",
                    "check that the input is what it should be", reader.lines.path,
                )  # fmt: skip
        sentences.finish()

    def _add(self, sentences: SentenceBatches, pair: WordPair, links: LinksLine | None, line: int) -> None:
        if not self._usable(pair, line):
            return
        texts = (escape(" ".join(words)) for words in pair)
        sides = (self._encoded(text, path, line) for text, path in zip(texts, self._paths, strict=True))
        sentences.add(*sides, links and links.parse(*map(len, pair)))

    def _usable(self, pair: WordPair, line: int) -> bool:
        remedy = "or give --on_error=keep to leave such lines out"
        for words, path in zip(pair, self._paths, strict=True):
            found = None
            if not words:
                found = "found an empty sentence", "expected words", f"remove the pair, {remedy}"
            elif len(words) > self._max_length:
                expected = f"expected at most {self._max_length}"
                found = f"found {len(words)} words", expected, f"raise --max_sentence_length, {remedy}"
            if found and self._on_error == "stop":
                raise InputError(*found, path, line)
            if found:
                self.left_out += 1
                return False
        return True

    def _encoded(self, text: str, path: FilePath, line: int) -> bytes:
        try:
            return self._encoding.encode(text)
        except UnicodeEncodeError as error:
            raise unencodable(error, self._encoding_name, path, line) from None

    @functools.cached_property
    def _paths(self) -> tuple[FilePath, FilePath]:
        return self._source or self._path, self._path


class _Job:
    """The steps after reading, each on all processes."""

    def __init__(self, executor: Executor, folder: str, progress: ShowProgress, number_of_processes: int) -> None:
        self._executor, self._folder, self._progress = executor, folder, progress
        self._number_of_processes = number_of_processes
        self._runs: list[Any] = []

    def align(self, batches: int, aligner: str) -> None:
        """Aligns in both directions side by side."""
        with self._progress(CountedWork(0), "rounds of alignment") as shown:
            futures = [
                self._executor.submit(
                    align_direction, self._folder, batches, direction, aligner, _RoundCounter(self._folder)
                )
                for direction in DIRECTIONS
            ]  # fmt: skip
            running: Iterable[Any] = futures
            while running:
                done, running = concurrent.futures.wait(
                    running, timeout=1, return_when=concurrent.futures.FIRST_EXCEPTION
                )
                for future in done:
                    future.result()
                shown.add(_RoundCounter(self._folder).count() - shown.count)

    def extract(self, lengths: list[int], symmetrization: str, max_length: int) -> int:
        """Extracts phrase pairs of all batches, and returns how many there are."""
        step = functools.partial(
            extract_batch, self._folder, symmetrization=symmetrization, max_length=max_length
        )
        occurrences, word_pairs = 0, []
        work = CountedWork(sum(lengths))
        with self._progress(work, "sentence pairs") as shown:
            for length, batch in zip(lengths, self._side_by_side(step, range(len(lengths))), strict=True):
                self._runs += batch.runs
                occurrences += batch.occurrences
                word_pairs.append(batch.word_pairs)
                if len(word_pairs) == _PARTS_ADDED_AT_ONCE:
                    word_pairs = [WordPairCounts.sum(word_pairs)]
                work.bytes_read += length
                shown.add(length)
        write_word_pairs(self._folder, WordPairCounts.sum(word_pairs))
        return occurrences

    def score(self, file: Any, smoothing: str) -> int:
        """Writes the table, and returns the number of its lines."""
        ranges = plan_ranges(self._runs)
        partitions = 1 + sum(run.lines for run in self._runs) // PAIRS_IN_PARTITION
        work = CountedWork(sum(part.size for part in ranges))
        scored = []
        step = functools.partial(_score_numbered, self._folder, partitions)
        with self._progress(work, "phrase pairs") as shown:
            for part, found in zip(ranges, self._side_by_side(step, enumerate(ranges)), strict=True):
                scored.append(found)
                work.bytes_read += part.size
                shown.add(int(found.counts_of_counts[0]))
        for run in self._runs:
            os.unlink(run.path)
        rows = np.array([found.rows for found in scored]).reshape(len(ranges), partitions)
        count_of_counts = sum(found.counts_of_counts for found in scored).tolist()
        for _ in self._side_by_side(functools.partial(count_targets, self._folder, rows), range(partitions)):
            pass
        for number in range(len(ranges)):
            os.unlink(targets_path(self._folder, number))
        step = functools.partial(
            write_range, self._folder, rows=rows, smoothing=CountSmoothing(smoothing, count_of_counts)
        )
        work = CountedWork(count_of_counts[0])
        with self._progress(work, "lines") as shown:
            for path, found in zip(self._side_by_side(step, range(len(ranges))), scored, strict=True):
                with open(path, "rb") as lines:
                    shutil.copyfileobj(lines, file, 1 << 20)
                os.unlink(path)
                work.bytes_read += int(found.counts_of_counts[0])
                shown.add(int(found.counts_of_counts[0]))
        return count_of_counts[0]

    def _side_by_side(self, step: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return in_order(self._executor, step, items, self._number_of_processes + 1)


class _RoundCounter:
    """Counts rounds of training in several processes: a byte for each in a file."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "rounds")

    def __call__(self) -> None:
        with open(self._path, "ab") as file:
            file.write(b".")

    def count(self) -> int:
        """Rounds so far."""
        return os.path.getsize(self._path) if os.path.exists(self._path) else 0


def _score_numbered(folder, partitions, numbered):
    return score_range(folder, *numbered, partitions)


def _texts(
    records: Iterable[tuple[Record, LinksLine | None]],
    aside: collections.deque[tuple[LinksLine | None, int]],
    reader: Any,
) -> Iterator[Record]:
    for record, links in records:
        aside.append((links, reader.lines.line_number))
        yield record


@contextlib.contextmanager
def _folder(output: FilePath) -> Iterator[str]:
    """A folder for what is sorted, on the disk where the output goes, as it takes several times its space."""
    path = os.path.realpath(output)
    is_file = output != STANDARD_STREAM and (not os.path.exists(path) or stat.S_ISREG(os.stat(path).st_mode))
    if is_file:
        with temporary_folder_beside(path) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="encdec-extract-") as folder, unfinished(folder):
        yield folder
