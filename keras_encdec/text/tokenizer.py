"""Tokenization of raw text, and subwords that are joined again; the same in tf.data pipelines and served graphs."""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable, unescape
from keras_encdec.text.vocabulary import UNKNOWN_WORD


class Tokenizer:
    """Splits raw text into words, every step a TensorFlow operation.

    NFKC normalization; typographic apostrophes made plain; case folding if asked for; every
    punctuation mark and symbol a token of its own; white space and control characters separate. The
    same call runs eagerly, inside `tf.data` and inside an exported graph, so that what is served sees
    the words that were trained on.

    Args:
        lowercase: bool. Whether to fold case (Unicode case folding: also "ß" to "ss").
            Defaults to `False`.

    Raises:
        ImportError: when tensorflow-text is not installed (it has no wheels for some platforms).
            Text that is already tokenized needs no tokenizer.

    Example:

    >>> tokenizer = Tokenizer(lowercase=True)
    >>> [tokens.decode() for tokens in tokenizer(["Open the File…", "l’été"]).numpy()]
    ['open the file . . .', "l ' été"]
    """

    def __init__(self, lowercase: bool = False) -> None:
        try:
            import tensorflow_text
        except ImportError as error:
            raise ImportError(
                "Tokenizing raw text needs tensorflow-text, which is not installed or has no build for "
                "this platform: install it, or give text that is already tokenized."
            ) from error
        self._text = tensorflow_text
        self.lowercase = lowercase

    def __call__(self, lines: Any) -> Any:
        """Tokenizes.

        Args:
            lines: string tensor or list `(n,)`, UTF-8.

        Returns:
            string tensor `(n,)`: the tokens of each line, separated by single spaces.
        """
        import tensorflow as tf

        lines = self._text.normalize_utf8(tf.convert_to_tensor(lines, tf.string), "NFKC")
        lines = tf.strings.regex_replace(lines, "[\u2018\u2019]", "'")
        if self.lowercase:
            lines = self._text.case_fold_utf8(lines)
        lines = tf.strings.regex_replace(lines, r"([\p{P}\p{S}])", r" \1 ")
        # Not tensorflow-text's WhitespaceTokenizer, which cuts the two bytes of U+0085 apart.
        return tf.strings.strip(tf.strings.regex_replace(lines, r"[\p{Z}\p{Cc}]+", " "))

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """Tokenizes lines of str, as lists of words.

        Args:
            lines: list of str. A lone surrogate, a byte that its file's encoding does not have, reads as "?".

        Returns:
            list of lists of str.
        """
        tokenized = self([line.encode("utf-8", "replace") for line in lines])
        return [split_tokens(line) for line in tokenized.numpy()]


def split_tokens(line: bytes) -> list[str]:
    """The words of a tokenized line: bytes to list of str."""
    return line.decode().split(" ") if line else []


#: Aligned words that are further apart are treated as not aligned.
LONGEST_DISTANCE = 7
NO_POSITION_WORD = "unkpos_null"
#: "unkpos_-7" to "unkpos_7", and "unkpos_null".
POSITION_WORDS = (*(f"unkpos_{d}" for d in range(-LONGEST_DISTANCE, LONGEST_DISTANCE + 1)), NO_POSITION_WORD)
_POSITION_WORD = re.compile(r"unkpos_(-?\d+)")


def is_position_word(word: str) -> bool:
    """Whether a word is "unkpos_d", for whatever distance d, or "unkpos_null"."""
    return word == NO_POSITION_WORD or position_distance(word) is not None


def stands_for_unknown(word: str) -> bool:
    """Whether a target word is "<unk>" or a position word."""
    return word == UNKNOWN_WORD or is_position_word(word)


def position_distance(word: str) -> int | None:
    """How many positions a target word "unkpos_d" stands after its source word: d; `None` for any other word.

    Example:

    >>> position_distance("unkpos_-2"), position_distance("unkpos_null"), position_distance("house")
    (-2, None, None)
    """
    match = _POSITION_WORD.fullmatch(word)
    return int(match[1]) if match else None


def position_word_indices(links: Iterable[tuple[int, int]], target_words: int) -> Sequence[int]:
    """Which of `POSITION_WORDS` stands for each word of a target, should it be unknown.

    A target word at j that is aligned to the source word at i becomes "unkpos_d", d = j - i. Of several source words
    that it is aligned to, the nearest counts, with the least |d|; of two that are as near, the first.

    Args:
        links: of pairs of source position and target position, from 0.
        target_words: int. Number of words in the target.

    Returns:
        list of int, one for each target word.

    Example:

    >>> [POSITION_WORDS[index] for index in position_word_indices([(0, 1), (3, 1), (9, 0)], 3)]
    ['unkpos_null', 'unkpos_1', 'unkpos_null']

    Reference:
        - Luong et al., 2015, "Addressing the Rare Word Problem in Neural Machine Translation" (arXiv 1410.8206)
    """
    distances: list[int | None] = [None] * target_words
    for i, j in links:
        distance, before = j - i, distances[j]
        if abs(distance) <= LONGEST_DISTANCE and (before is None or (abs(distance), i) < (abs(before), j - before)):
            distances[j] = distance
    null = len(POSITION_WORDS) - 1
    return [null if distance is None else distance + LONGEST_DISTANCE for distance in distances]


GOES_ON, BEGINS = "@@", "\u2581"


def join_bpe(pieces: Sequence[str]) -> str:
    """Text of pieces that byte-pair encoding marks by "@@" where the word goes on: "transl@@ ation" is "translation".

    An unknown word is a word of its own.

    Example:

    >>> join_bpe(["a", "transl@@", "at@@", "ion", "Mün@@", "<unk>"])
    'a translation Mün <unk>'
    """
    return (" ".join(_with_unknown_apart(pieces, False)) + " ").replace(GOES_ON + " ", "").strip()


def join_sentencepiece(pieces: Sequence[str]) -> str:
    """Text of SentencePiece's pieces, of which "\\u2581" begins a word.

    An unknown word is a word of its own.

    Example:

    >>> join_sentencepiece(["\\u2581a", "\\u2581transl", "ation", "<unk>"])
    'a translation <unk>'
    """
    pieces = " ".join(_with_unknown_apart(pieces, True)).split(" ")
    return "".join(pieces).replace(BEGINS, " ").strip()


def begin_with_marks(pieces: Sequence[str]) -> bool:
    """Whether these are SentencePiece's pieces."""
    return any(piece.startswith(BEGINS) for piece in pieces)


def word_around(pieces: Sequence[str], i: int) -> list[str]:
    """The pieces of the word that piece i is of; it alone where pieces have no marks.

    Example:

    >>> word_around(["in", "M@@", "ün@@", "chen", "."], 2)
    ['M@@', 'ün@@', 'chen']
    """
    with_beginnings = begin_with_marks(pieces)

    def goes_on(j: int) -> bool:
        before, piece = pieces[j - 1 : j + 1]
        return before.endswith(GOES_ON) or with_beginnings and not piece.startswith(BEGINS)

    start, stop = i, i + 1
    while start > 0 and goes_on(start):
        start -= 1
    while stop < len(pieces) and goes_on(stop):
        stop += 1
    return list(pieces[start:stop])


def word_text(pieces: Sequence[str]) -> str:
    """The text of the pieces of a word.

    Example:

    >>> word_text(["M@@", "ün@@", "chen"]), word_text(["\u2581Mün", "chen"])
    ('München', 'München')
    """
    return "".join(piece.removesuffix(GOES_ON) for piece in pieces).removeprefix(BEGINS)


def words_apart(pieces: Sequence[str], numbers: Collection[int], with_beginnings: bool) -> list[str]:
    """Pieces of which some are made words of their own.

    Args:
        pieces: list of str.
        numbers: those of the pieces that are words of their own.
        with_beginnings: bool. Whether these are SentencePiece's pieces.

    Example:

    >>> words_apart(["M@@", "Tom", "chen"], [1], False)
    ['M', 'Tom', 'chen']
    """
    apart = list(pieces)
    for j in numbers:
        if j > 0 and j - 1 not in numbers:
            apart[j - 1] = apart[j - 1].removesuffix(GOES_ON)
        if with_beginnings:
            for k in range(j, min(j + 2, len(apart))):
                apart[k] = BEGINS + apart[k].removeprefix(BEGINS)
    return apart


def _with_unknown_apart(pieces: Sequence[str], with_beginnings: bool) -> list[str]:
    unknown = [j for j, piece in enumerate(pieces) if stands_for_unknown(piece)]
    return words_apart(pieces, unknown, with_beginnings)


SUBWORD_JOINERS = {"bpe": join_bpe, "sentencepiece": join_sentencepiece}


def read_dictionary(
    path: str | os.PathLike[str], encoding: str | None = None, can_declare: bool = True
) -> dict[str, str]:
    """Reads a dictionary: a line each of a source word and its translation, separated by a tab.

    Moses's escapes are taken off. A third column, such as how often the two were seen together, is passed over.

    Args:
        path: of the file, plain or gzipped.
        encoding: str. See `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an error.
        can_declare: bool. Whether the caller can be given another encoding, for the report. Defaults to `True`.

    Returns:
        dict of source word to target word.

    Raises:
        InputError: naming the line, when it is not of this form, or a source word stands there twice.
    """
    dictionary: dict[str, str] = {}
    file_encoding = FileEncoding(encoding)
    with InputLines(path) as lines:
        for raw in lines:
            number = lines.line_number
            try:
                text = file_encoding.decode(raw.removesuffix(b"\r"))
            except UnicodeDecodeError as error:
                report = undecodable(error, path, number)
                if not can_declare:
                    report = InputError(report.found, "expected UTF-8", "convert the file to UTF-8", path, number)
                raise report from None
            is_first = number == 1 and file_encoding.is_utf8
            columns = (text.removeprefix(BYTE_ORDER_MARK) if is_first else text).split("\t")
            words = [unescape(column.strip(" ")) for column in columns[:2]]
            if not 2 <= len(columns) <= 3 or not all(words):
                expected = "expected a source word, a tab and its translation"
                raise InputError(f"found {len(columns)} columns in {quoted(text)}", expected, path=path, line=number)
            if words[0] in dictionary:
                expected = "expected one translation of each word"
                raise InputError(f"found {quoted(words[0])} twice", expected, path=path, line=number)
            dictionary[words[0]] = words[1]
    return dictionary
