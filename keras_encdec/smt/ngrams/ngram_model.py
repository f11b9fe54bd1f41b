"""Scores sentences with an n-gram language model, which KenLM reads."""

import contextlib
import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from keras_encdec.errors import FilePath, InputError, quoted, shortened
from keras_encdec.formats.encodings import FileEncoding, without_mark
from keras_encdec.formats.fields import LARGEST, split_tokens
from keras_encdec.runtime.files import check_can_be_read_again
from keras_encdec.runtime.imports import check_extra
from keras_encdec.runtime.input_lines import InputLines
from keras_encdec.runtime.remote_folders import LocalFiles
from keras_encdec.runtime.unfinished import temporary_folder, writing_temporary_files
from keras_encdec.smt.ngrams.ngram_estimation import SENTENCE_BEGIN, SENTENCE_END, UNKNOWN

if TYPE_CHECKING:
    from kenlm import Model, State

_COUNT = re.compile(rb"ngram \s*\d{1,3}\s*=\s*\d{1,15}\s*$")  # a line of the header of an ARPA file
_HEADER = 30  # number of lines that may be in the header
# How KenLM says that it was built for shorter n-grams than the model has.
_TOO_LONG = re.compile(r"model has order (\d+) but KenLM was compiled to support up to (\d+)")
_BINARY = b"mmap lm http://kheafield.com/code"  # the start of KenLM's binary files
_REMEDY = "give an ARPA file or a binary file of KenLM, as encdec-ngram, lmplz or build_binary makes it"
# KenLM also splits sentences at these, which are part of words here.
_OTHER_SPACE = frozenset("\v\f\r\0\n")
# In a text, these are words like any others, and do not begin or end a sentence.
_MARKS = frozenset({SENTENCE_BEGIN.decode(), SENTENCE_END.decode()})


class NgramModel:
    r"""A back-off n-gram model: the log-probability of a word after a context.

    A context is represented by a state of KenLM. Contexts with the same state give every continuation the same
    probability. KenLM computes in float32, as Moses does.

    Args:
        path: ARPA file, plain or gzipped, as `estimate_ngrams`, KenLM and SRILM write it, or a binary file of KenLM,
            which loads at once and which several processes share.
        encoding: str. Encoding of an ARPA file. Defaults to `None`: UTF-8, and other bytes are an error.

    Attributes:
        order: int. Number of words in the longest n-grams.
        empty: the state of an empty context.
        begin: the state at the beginning of a sentence.

    Raises:
        ImportError: if kenlm is not installed, which the extra `ngram` installs.
        InputError: if the file cannot be read or is not an n-gram model.

    Reference:
        - Heafield, 2011, "KenLM: Faster and Smaller Language Model Queries" (WMT, W11-2123)

    Example:

    >>> import os, tempfile
    >>> from keras_encdec.smt.ngrams.ngram_estimation import estimate_ngrams
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text, arpa = os.path.join(folder, "text"), os.path.join(folder, "arpa")
    ...     with open(text, "w") as file:
    ...         _ = file.write("a b\na c\n")
    ...     summary = estimate_ngrams(text, arpa, order=2)
    ...     model = NgramModel(arpa)
    >>> round(10 ** model.score(["a", "b"]), 4)
    0.1365
    """

    def __init__(self, path: FilePath, encoding: str | None = None) -> None:
        check_extra("ngram", "An n-gram model", "kenlm")
        import kenlm

        self._path, self._new_state = path, kenlm.State
        with _readable_by_kenlm(path, FileEncoding(encoding)) as readable:
            configuration = kenlm.Config()  # without KenLM's own messages on standard error
            configuration.show_progress, configuration.arpa_complain = False, kenlm.ARPALoadComplain.NONE
            try:
                self._model: Model = kenlm.Model(os.fspath(readable), configuration)
            except (OSError, UnicodeDecodeError) as error:  # KenLM quotes the file in its errors
                # KenLM names its own functions first, with all their types.
                found = " ".join(str(error).split())
                found = found.partition("Exception")[2].lstrip(". ").removesuffix(")") or found
                if order := _TOO_LONG.search(found):
                    expected = f"expected an order up to {order[2]}, which KenLM was built for"
                    remedy = f"estimate a model of a lower order, such as with encdec-ngram --order={order[2]}"
                    raise InputError(f"found n-grams of order {order[1]}", expected, remedy, path) from None
                reason = shortened(found.partition("'. ")[2] if found.startswith("because `") else found, 300)
                raise self._error(
                    f"found a file that KenLM cannot read ({reason})", "expected an n-gram model"
                ) from None
        self.order: int = self._model.order
        self.empty, self.begin = kenlm.State(), kenlm.State()
        self._model.NullContextWrite(self.empty)
        self._model.BeginSentenceWrite(self.begin)

    def __contains__(self, word: str) -> bool:
        """Whether the model has a word. KenLM scores all other words as `<unk>`."""
        try:
            return "\0" not in word and word in self._model
        except UnicodeEncodeError:  # the word has bytes that are not text in the declared encoding
            return False

    def advance(self, state: "State", word: str) -> tuple[float, "State"]:
        """Computes log10 p of a word after a state, and the state after it; the word `</s>` is the end of the sentence.

        Raises:
            InputError: if log10 p is not finite, because of a number such as -1e400 in the file.
        """
        following = self._new_state()
        if "\0" in word:  # KenLM would read only the part before it
            word = UNKNOWN.decode()
        try:
            log10 = self._model.BaseScore(state, word, following)
        except UnicodeEncodeError:  # the word has bytes that are not text in the declared encoding
            log10 = self._model.BaseScore(state, UNKNOWN.decode(), following)
        if not abs(log10) <= LARGEST:  # or not a number
            raise self._error(f"found log10 p = {log10} of {quoted(word)}", "expected finite numbers")
        return log10, following

    def score(self, words: Sequence[str]) -> float:
        """Computes log10 p of a sentence with its end; unknown words are `<unk>`, and so are `<s>` and `</s>` in it."""
        words = [UNKNOWN.decode() if word in _MARKS else word for word in words]
        sentence = " ".join(words)
        if _OTHER_SPACE.isdisjoint(sentence):
            with contextlib.suppress(UnicodeEncodeError):
                log10 = self._model.score(sentence, bos=True, eos=True)
                if abs(log10) <= LARGEST:
                    return float(log10)
        state, log10 = self.begin, 0.0
        for word in (*words, SENTENCE_END.decode()):
            log10_of_word, state = self.advance(state, word)
            log10 += log10_of_word
        return log10

    def _error(self, found: str, expected: str) -> InputError:
        return InputError(found, expected, _REMEDY, self._path)


def check_ngram_model(path: FilePath) -> None:
    """Checks that kenlm is installed, and that a file begins as an n-gram model does, without reading all of it.

    Raises:
        ImportError: if kenlm is not installed.
        InputError: if it cannot be read, does not begin like an n-gram model, or is a pipe.
    """
    check_extra("ngram", "An n-gram model", "kenlm")
    check_can_be_read_again(path)
    with InputLines(path) as lines:
        unmarked = (without_mark(line, lines.line_number) for line in lines)
        first = next((line for line in unmarked if line.strip()), b"")
        if not first.startswith(_BINARY) and first.strip() != b"\\data\\":
            found = f"found {quoted(first)} as the first line that is not empty"
            raise InputError(found, "expected \\data\\, or a binary file of KenLM", _REMEDY, path, lines.line_number)


def arpa_words(path: FilePath) -> frozenset[bytes] | None:
    """Reads the words of an ARPA file, in its encoding; returns `None` for a binary file, which does not list them."""
    with InputLines(path) as lines:
        words = set()
        for line in lines:
            if line.startswith((_BINARY, b"\\2-grams:", b"\\end\\")):
                break
            fields = split_tokens(line)
            if len(fields) in (2, 3) and not line.startswith(b"ngram "):
                words.add(fields[1])
        return frozenset(words) or None


@contextlib.contextmanager
def _readable_by_kenlm(path: FilePath, encoding: FileEncoding) -> Iterator[FilePath]:
    """Checks that an ARPA file is complete text, and yields its path, or that of a copy in UTF-8 without a mark."""
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(LocalFiles()).path(path)
        lines = stack.enter_context(InputLines(path))
        copy = None
        for number, line in enumerate(lines):
            if number == 0:
                if line.startswith(_BINARY):
                    yield path
                    return
                marked, line = line, without_mark(line, 1)
                if line != marked or not encoding.is_utf8:
                    stack.enter_context(writing_temporary_files())
                    folder = stack.enter_context(temporary_folder())
                    copy = stack.enter_context(open(pathlib.Path(folder, "arpa"), "wb"))
            if line.startswith(b"ngram ") and number < _HEADER and not _COUNT.match(line):
                # A negative number ends KenLM's process.
                raise InputError(f"found {quoted(line)}", "expected a line such as ngram 1=100", "", path, number + 1)
            if copy or not line.isascii():
                text = encoding.decode_line(line, lines.path, lines.line_number)
                if copy:
                    copy.write(text.encode("utf-8", "surrogateescape") + b"\n")
        if copy:
            copy.flush()
        yield copy.name if copy else path
