"""Stores parallel sentences on disk, in batches that several processes work on at the same time."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator

from keras_encdec.data.alignment import directional_links, symmetrize, train_aligner
from keras_encdec.data.pairs import words_with
from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.alignments import Links, LinksLine, links_from_file
from keras_encdec.formats.encodings import FileEncoding, escape
from keras_encdec.formats.format_registry import pair_format
from keras_encdec.formats.pair_format import Record, WordPair
from keras_encdec.formats.record_reader import LEFT_OUT
from keras_encdec.runtime.progress import ShowProgress
from keras_encdec.smt.extraction.extraction_options import ExtractionOptions, raw_text_tokenizer
from keras_encdec.smt.extraction.lexical_table import NULL

# Number of words of both sides at which a batch is written.
WORDS_IN_BATCH = 250_000
DIRECTIONS = ("direct", "inverse")

WordBytes = list[bytes]


class SentenceBatches:
    """Writes sentence pairs to a folder in batches, and numbers their words.

    Args:
        folder: str. An existing folder.

    Attributes:
        vocabulary: dict from each word of either side, and NULL, to its number.
        lengths: list of int. Number of sentence pairs in each batch.
    """

    def __init__(self, folder: str) -> None:
        self.vocabulary: dict[bytes, int] = {NULL: 0}
        self.lengths: list[int] = []
        self._folder = folder
        self._pairs: list[bytes] = []
        self._links: list[bytes] = []
        self._words = 0

    def add(self, source: bytes, target: bytes, links: Iterable[tuple[int, int]] | None) -> None:
        """Adds an escaped sentence pair, and its links unless the sentences are aligned later."""
        for side in (source, target):
            words = side.split(b" ")
            self._words += len(words)
            for word in words:
                if word not in self.vocabulary:
                    self.vocabulary[word] = len(self.vocabulary)
        self._pairs.append(source + b"\t" + target + b"\n")
        if links is not None:
            self._links.append(b" ".join(b"%d-%d" % link for link in links) + b"\n")
        if self._words >= WORDS_IN_BATCH:
            self._write()

    def finish(self) -> None:
        """Writes the last batch and the vocabulary."""
        if self._pairs:
            self._write()
        with open(_path(self._folder, "vocabulary"), "wb") as file:
            file.writelines(word + b"\n" for word in self.vocabulary)

    def _write(self) -> None:
        for name, lines in (("pairs", self._pairs), ("links", self._links)):
            if lines:
                with open(_path(self._folder, name, len(self.lengths)), "wb") as file:
                    file.writelines(lines)
        self.lengths.append(len(self._pairs))
        self._pairs, self._links, self._words = [], [], 0


@functools.lru_cache(maxsize=1)
def read_vocabulary(folder: str) -> dict[bytes, int]:
    """Reads the vocabulary that SentenceBatches wrote to a folder, and keeps it: the number of each word."""
    with open(_path(folder, "vocabulary"), "rb") as file:
        return {line[:-1]: number for number, line in enumerate(file)}


def align_direction(folder: str, batches: int, direction: str, aligner: str, round_done: Callable[[], None]) -> None:
    """Aligns all sentences in one of `DIRECTIONS`, and writes the links of each batch. See `train_aligner`."""

    def pairs(numbers: Iterable[int]) -> Iterator[tuple[list[str], list[str]]]:
        for number in numbers:
            for source, target in read_pairs(folder, number):
                # The aligner only compares words, and Latin-1 decodes any bytes.
                sides = [word.decode("latin-1") for word in source], [word.decode("latin-1") for word in target]
                yield sides if direction == "direct" else sides[::-1]

    model = train_aligner(aligner, pairs(range(batches)), round_done)
    for number in range(batches):
        with open(_path(folder, direction, number), "w", encoding="ascii") as file:
            file.writelines(" ".join(map(str, links)) + "\n" for links in directional_links(model, pairs([number])))


def read_pairs(folder: str, number: int) -> Iterator[tuple[WordBytes, WordBytes]]:
    """Yields the source words and the target words of each sentence pair of a batch."""
    with open(_path(folder, "pairs", number), "rb") as file:
        for line in file:
            source, target = line[:-1].split(b"\t")
            yield source.split(b" "), target.split(b" ")


def read_links(folder: str, number: int, symmetrization: str) -> Iterator[Links]:
    """Yields the links of each sentence pair of a batch: the given links, or else the symmetrized links."""
    if os.path.exists(_path(folder, "links", number)):
        with open(_path(folder, "links", number), "rb") as file:
            for line in file:
                yield [(int(i), int(j)) for i, _, j in (link.partition(b"-") for link in line.split())]
        return
    with (
        open(_path(folder, DIRECTIONS[0], number), encoding="ascii") as direct,
        open(_path(folder, DIRECTIONS[1], number), encoding="ascii") as inverse,
    ):
        for lines in zip(direct, inverse, strict=True):
            links, inverse_links = (list(map(int, line.split())) for line in lines)
            yield symmetrize(links, inverse_links, symmetrization)


def remove_batch(folder: str, number: int) -> None:
    """Removes the files of a batch."""
    for name in ("pairs", "links", *DIRECTIONS):
        if os.path.exists(_path(folder, name, number)):
            os.unlink(_path(folder, name, number))


def _path(folder: str, *parts: object) -> str:
    return os.path.join(folder, ".".join(map(str, parts)))


def read_sentence_pairs(
    sentences: SentenceBatches,
    path: FilePath,
    format: str,
    source: FilePath | None,
    alignment: FilePath | None,
    options: ExtractionOptions,
    progress: ShowProgress,
) -> int:
    """Reads parallel text, and its links if there is a file of them, into batches, see `extract_phrase_table`.

    Returns the number of lines left out: malformed, empty or too long.

    Raises:
        InputError: if the text or the alignment cannot be used.
    """
    known, tokenizer, encoding = pair_format(format), raw_text_tokenizer(options), FileEncoding(options.encoding)
    paths, left_out = (source or path, path), 0
    with known.open_reader(path, source, options.encoding, options.on_error) as reader:
        reader.kept = LEFT_OUT
        if alignment:
            records: Iterable[tuple[Record, LinksLine | None]] = links_from_file(reader, alignment)
        else:
            records = ((record, None) for record in reader if record.problem is None)
        numbered = ((record, (links, reader.lines.line_number)) for record, links in records)
        with progress(reader.lines, "sentence pairs") as shown:
            for pair, (links, line) in words_with(numbered, known, tokenizer):
                if _is_usable(pair, options, paths, line):
                    sides = [
                        encoding.encode_line(escape(" ".join(words)), file, line)
                        for words, file in zip(pair, paths, strict=True)
                    ]
                    sentences.add(sides[0], sides[1], links and links.parse(*map(len, pair)))
                else:
                    left_out += 1
                shown.add(1)
        left_out += reader.malformed
        if not sentences.vocabulary.keys() - {NULL}:
            longest = options.max_sentence_length
            found = f"found {left_out:,} lines, all of them malformed, empty on a side or longer than {longest:,} words"
            remedy = "check that the input is parallel text, or raise --max_sentence_length"
            raise InputError(found, "expected at least one pair to extract phrases from", remedy, reader.lines.path)
    sentences.finish()
    return left_out


def _is_usable(pair: WordPair, options: ExtractionOptions, paths: tuple[FilePath, FilePath], line: int) -> bool:
    """Returns whether to use a pair; raises InputError for a pair that `on_error="stop"` does not allow."""
    remedy = "or give --on_error=keep to leave such lines out"
    for words, path in zip(pair, paths, strict=True):
        if not words:
            problem = "found an empty sentence", "expected words", f"remove the pair, {remedy}"
        elif len(words) > options.max_sentence_length:
            expected = f"expected at most {options.max_sentence_length}"
            problem = f"found {len(words)} words", expected, f"raise --max_sentence_length, {remedy}"
        else:
            continue
        if options.on_error == "stop":
            raise InputError(*problem, path, line)
        return False
    return True
