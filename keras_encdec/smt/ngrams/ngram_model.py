"""Reads an n-gram language model from an ARPA file, and scores sentences with it."""

import math
import re
from array import array
from collections.abc import Iterator, Sequence

from keras_encdec.errors import FilePath, InputError, quoted
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.formats.fields import AROUND, LARGEST, finite_number, split_tokens
from keras_encdec.runtime.files import InputLines
from keras_encdec.smt.ngrams.ngram_estimation import BEGIN, END, UNKNOWN

# KenLM's log10 p of an unknown word where a model lacks <unk>.
_UNKNOWN_LOG10 = -100.0
_EMPTY = 0
_COUNT = re.compile(rb"[ \t]*\d{1,15}[ \t]*")


class NgramModel:
    """A back-off n-gram model: the log-probability of a word after a context.

    A context is represented by a state, an int: the longest n-gram of the model that matters for the next words.
    Contexts with the same state give every continuation the same probability. Each n-gram takes about 150 bytes of
    memory.

    Args:
        path: ARPA file, plain or gzipped, as `estimate_ngrams`, KenLM and SRILM write it.
        encoding: str. Its encoding. Defaults to `None`: UTF-8, and other bytes are an error.

    Attributes:
        order: int. Words of the longest n-grams.
        vocabulary: dict of bytes to int: the numbers of the words.
        empty: int. The state of an empty context.
        begin: int. The state at the beginning of a sentence.
        end: int. The number of `</s>`.
        unknown: int. The number of `<unk>`.

    Raises:
        InputError: when the file cannot be read or is not an ARPA file, with the line.

    Example:

    >>> import os, tempfile
    >>> from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text, arpa = os.path.join(folder, "text"), os.path.join(folder, "arpa")
    ...     with open(text, "w") as file:
    ...         _ = file.write("a b\\na c\\n")
    ...     summary = estimate_ngrams(text, arpa, order=2)
    ...     model = NgramModel(arpa)
    >>> round(10 ** model.score([b"a", b"b"]), 4)
    0.1365
    """

    def __init__(self, path: FilePath, encoding: str | None = None) -> None:
        self.vocabulary: dict[bytes, int] = {}
        # Each n-gram has a number; the empty n-gram has 0. The key is the number of its first words and its last word.
        self._children: dict[int, int] = {}
        self._log10, self._back_off = array("d", [0.0]), array("d", [0.0])
        # For each n-gram: its longest proper suffix in the model, and the state after it.
        self._suffix, self._states = array("q", [_EMPTY]), array("q", [_EMPTY])
        with InputLines(path) as lines:
            counts = self._read(_ArpaLines(lines, FileEncoding(encoding)))
        self.order, self._size = len(counts), max(len(self.vocabulary), 1)
        self._minimize_states()
        self.empty, self.end, self.unknown = _EMPTY, self.vocabulary[END], self.vocabulary[UNKNOWN]
        self.begin = self._states[self._children[self.vocabulary[BEGIN]]]

    def advance(self, state: int, word: int) -> tuple[float, int]:
        """Computes the log-probability of a word, and the state after it.

        Args:
            state: int. The state of the context.
            word: int. The number of the word.

        Returns:
            tuple: log10 p, float, and the state after the word, int.
        """
        back_off = 0.0
        while (ngram := self._children.get(state * self._size + word)) is None:
            back_off += self._back_off[state]
            state = self._suffix[state]
        return self._log10[ngram] + back_off, self._states[ngram]

    def score(self, words: Sequence[bytes]) -> float:
        """Computes log10 p of a sentence with its end; unknown words are `<unk>`."""
        state, total = self.begin, 0.0
        for word in words:
            log10, state = self.advance(state, self.vocabulary.get(word, self.unknown))
            total += log10
        return total + self.advance(state, self.end)[0]

    def _read(self, lines: "_ArpaLines") -> list[int]:
        counts = lines.counts()
        for order, count in enumerate(counts, start=1):
            lines.expect(b"\\%d-grams:" % order)
            read = 0
            for fields in lines.ngrams():
                self._add(fields, order, lines)
                read += 1
            if read != count:
                raise lines.error(
                    f"found {read:,} n-grams of order {order}", f"expected {count:,} as in the head of the file"
                )
            if order == 1:
                self._complete_unigrams(count, lines)
        lines.expect(b"\\end\\")
        lines.finish()
        return counts

    def _add(self, fields: list[bytes], order: int, lines: "_ArpaLines") -> None:
        if not order < len(fields) < order + 3:
            words = f"{order} word{'s' * (order > 1)}"
            raise lines.error(f"found {len(fields)} fields", f"expected log10 p, {words} and a back-off weight")
        numbers = fields[:: order + 1]
        try:
            log10, back_off = float(numbers[0]), float(numbers[1]) if len(numbers) > 1 else 0.0
        except ValueError:
            log10 = back_off = math.nan
        # These checks are faster than `finite_number`, which only runs to explain an error. `float` also reads 1_0.
        if not (-LARGEST <= log10 <= 0 and -LARGEST <= back_off <= LARGEST) or b"_" in b" ".join(numbers):
            log10, *_ = map(lines.number, numbers)
            raise lines.error(f"found {quoted(numbers[0])}", "expected log10 p, 0 or less")
        if order == 1:
            word = fields[1]
            if word in self.vocabulary:
                raise lines.error(f"found {quoted(word)} twice", "expected each word once")
            key = self.vocabulary[word] = len(self.vocabulary)
            suffix = _EMPTY
        else:
            context, word_id = self._context(fields[1 : order + 1], lines)
            key = context * self._size + word_id
            suffix = self._suffix[context]
            while (ngram := self._children.get(suffix * self._size + word_id)) is None:
                suffix = self._suffix[suffix]
            suffix = ngram
        if self._children.setdefault(key, len(self._log10)) != len(self._log10):
            raise lines.error("found an n-gram twice", "expected each once")
        self._log10.append(log10)
        self._back_off.append(back_off)
        self._suffix.append(suffix)

    def _context(self, words: list[bytes], lines: "_ArpaLines") -> tuple[int, int]:
        """Returns the number of the n-gram without its last word, and the number of the last word."""
        node = _EMPTY
        try:
            *first, last = [self.vocabulary[word] for word in words]
            for word in first:
                node = self._children[node * self._size + word]
        except KeyError:
            raise lines.error(
                f"found {quoted(b' '.join(words))}",
                "expected an n-gram whose words, and whose n-gram without the last word, are earlier in the file",
            ) from None
        return node, last

    def _complete_unigrams(self, count: int, lines: "_ArpaLines") -> None:
        """Completes the vocabulary: checks that it has <s> and </s>, and adds <unk> if it is missing."""
        for word in (BEGIN, END):
            if word not in self.vocabulary:
                raise lines.error(f"found no unigram {word.decode()}", "expected a model of sentences")
        if UNKNOWN not in self.vocabulary:
            self._children[len(self.vocabulary)] = len(self._log10)
            self.vocabulary[UNKNOWN] = len(self.vocabulary)
            self._log10.append(_UNKNOWN_LOG10)
            self._back_off.append(0.0)
            self._suffix.append(_EMPTY)
        self._size = len(self.vocabulary)

    def _minimize_states(self) -> None:
        """Gives an n-gram the state of its suffix if no n-gram continues it and it has no back-off weight."""
        needed = bytearray(len(self._log10))
        for key in self._children:
            needed[key // self._size] = 1
        for ngram in range(1, len(self._log10)):
            used = needed[ngram] or self._back_off[ngram]
            self._states.append(ngram if used else self._states[self._suffix[ngram]])


class _ArpaLines:
    """Reads the lines of an ARPA file section by section."""

    def __init__(self, lines: InputLines, encoding: FileEncoding) -> None:
        self._lines, self._encoding, self._held = lines, encoding, b""

    def error(self, found: str, expected: str) -> InputError:
        """Returns an error at the current line."""
        remedy = "give an ARPA file, as encdec-ngram or lmplz makes it"
        return InputError(found, expected, remedy, self._lines.path, self._lines.line_number)

    def counts(self) -> list[int]:
        """Reads the number of n-grams of each order."""
        for line in self._lines:  # lines before the head are comments
            if line.strip(AROUND) == b"\\data\\":
                break
        else:
            raise self.error("found no line \\data\\", "expected an ARPA file")
        counts: list[int] = []
        for line in self._lines:
            self._held = line.strip(AROUND)
            if not self._held:
                continue
            name, _, count = self._held.partition(b"=")
            if split_tokens(name) != [b"ngram", b"%d" % (len(counts) + 1)] or not _COUNT.fullmatch(count):
                break
            counts.append(int(count))
        if not counts:
            raise self.error(f"found {quoted(self._held)}", "expected a line ngram 1=COUNT")
        return counts

    def expect(self, heading: bytes) -> None:
        """Raises InputError unless the current line is this heading."""
        if self._held != heading:
            found = f"found {quoted(self._held)}" if self._held else "found the end of the file"
            raise self.error(found, f"expected {heading.decode()}")

    def finish(self) -> None:
        """Checks that nothing follows, and reads to the end of the file, where a truncated gzip file raises."""
        for line in self._lines:
            if rest := line.strip(AROUND):
                raise self.error(f"found {quoted(rest)} after \\end\\", "expected the end of the file")

    def number(self, text: bytes) -> float:
        """Parses a number of the current line. Its bound keeps weighted sums finite."""
        try:
            return finite_number(text, LARGEST)
        except ValueError:
            raise self.error(
                f"found {quoted(text)}", "expected log10 p, the words, and log10 of a back-off weight as finite numbers"
            ) from None

    def ngrams(self) -> Iterator[list[bytes]]:
        """Yields the fields of each line of a section."""
        self._held = b""
        for line in self._lines:
            if not line.isascii():
                self._encoding.decode_line(line, self._lines.path, self._lines.line_number)
            # `line.split` takes a third of the time of `split_tokens`; they differ only for other kinds of white space.
            fields = split_tokens(line.removesuffix(b"\r")) if b"\v" in line or b"\f" in line else line.split()
            if not fields:
                continue
            if fields[0].startswith(b"\\"):
                self._held = fields[0]
                return
            yield fields
