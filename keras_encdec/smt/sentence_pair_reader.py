"""Parallel text on its way into batches of sentences."""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

from keras_encdec.data.pairs import WordPair, record_words
from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import FileEncoding, unencodable
from keras_encdec.formats.escaping import escape
from keras_encdec.formats.file_path import FilePath
from keras_encdec.formats.pair_format import Record
from keras_encdec.formats.record_reader import RecordReader
from keras_encdec.formats.registry import pair_format
from keras_encdec.formats.word_links import LinksLine, links_beside
from keras_encdec.progress import ShowProgress
from keras_encdec.smt.lexical_table import NULL
from keras_encdec.smt.sentence_batches import SentenceBatches
from keras_encdec.text.tokenizer import Tokenizer


class SentencePairReader:
    """Reads parallel text, with its links if they are given, into SentenceBatches.

    Args:
        path, format, source, alignment, tokenization, encoding, on_error: see `extract_phrase_table`, where `path` is
            called `input`.
        max_length: int. Most words in a sentence.

    Attributes:
        left_out: int. Lines that were left out: malformed, empty or too long.
    """

    def __init__(
        self,
        path: FilePath,
        format: str,
        source: FilePath | None,
        alignment: FilePath | None,
        tokenization: dict[str, Any] | None,
        encoding: str | None,
        on_error: str,
        max_length: int,
    ) -> None:
        self.left_out = 0
        self._path, self._format, self._source, self._alignment = path, pair_format(format), source, alignment
        self._tokenizer = None if tokenization is None else Tokenizer(**tokenization)
        self._encoding, self._encoding_name, self._on_error = FileEncoding(encoding), encoding, on_error
        self._max_length = max_length
        self._paths = source or path, path

    def read(self, sentences: SentenceBatches, progress: ShowProgress) -> None:
        """Adds all sentence pairs to the batches, and finishes these.

        Args:
            sentences: SentenceBatches, still empty.
            progress: see `extract_phrase_table`.

        Raises:
            InputError: when the text or the alignment cannot be used.
        """
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
            if not sentences.vocabulary.keys() - {NULL}:
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


def _texts(
    records: Iterable[tuple[Record, LinksLine | None]],
    aside: collections.deque[tuple[LinksLine | None, int]],
    reader: RecordReader,
) -> Iterator[Record]:
    """The records; what else is known of each is put aside."""
    for record, links in records:
        aside.append((links, reader.lines.line_number))
        yield record
