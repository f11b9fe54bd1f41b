"""Tokenization of raw text, position words, subwords, and dictionaries."""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from keras_encdec.errors import InputError, quoted
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import BYTE_ORDER_MARK, FileEncoding, undecodable, unescape
from keras_encdec.text.vocabulary import UNKNOWN_WORD

if TYPE_CHECKING:
    import tensorflow as tf


class Tokenizer:
    """Splits raw text into words with TensorFlow operations.

    The text is normalized (NFKC), typographic apostrophes are replaced by plain ones, and case is folded if requested.
    Every punctuation mark and symbol is a separate token. White space and control characters separate tokens. The same
    operations run eagerly, in `tf.data` and in an exported graph, so that training and serving use the same words.

    Args:
        lowercase: bool. Whether to fold case. Unicode case folding also replaces "ß" by "ss". Defaults to `False`.

    Raises:
        ImportError: if tensorflow-text is not installed (it has no wheels for some platforms).
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

    def __call__(self, lines: "tf.Tensor | Sequence[str | bytes]") -> "tf.Tensor":
        """Tokenizes lines.

        Args:
            lines: string tensor or list `(n,)`, in UTF-8.

        Returns:
            string tensor `(n,)`: the tokens of each line, separated by single spaces.
        """
        import tensorflow as tf

        lines = self._text.normalize_utf8(tf.convert_to_tensor(lines, tf.string), "NFKC")
        lines = tf.strings.regex_replace(lines, "[\u2018\u2019]", "'")
        if self.lowercase:
            lines = self._text.case_fold_utf8(lines)
        lines = tf.strings.regex_replace(lines, r"([\p{P}\p{S}])", r" \1 ")
        # WhitespaceTokenizer of tensorflow-text is not used because it separates the two bytes of U+0085.
        return tf.strings.strip(tf.strings.regex_replace(lines, r"[\p{Z}\p{Cc}]+", " "))

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """Tokenizes lines into lists of words.

        Args:
            lines: list of str. A lone surrogate, which stands for an undecodable byte, is replaced by "?".

        Returns:
            list of lists of str.
        """
        tokenized = self([line.encode("utf-8", "replace") for line in lines])
        return [split_tokens(line) for line in tokenized.numpy()]


def split_tokens(line: bytes) -> list[str]:
    """Splits a tokenized line into words."""
    return line.decode().split(" ") if line else []


#: Aligned words at a larger distance are treated as not aligned.
LONGEST_DISTANCE = 7
NO_POSITION_WORD = "unkpos_null"
#: "unkpos_-7" to "unkpos_7", and "unkpos_null".
POSITION_WORDS = (*(f"unkpos_{d}" for d in range(-LONGEST_DISTANCE, LONGEST_DISTANCE + 1)), NO_POSITION_WORD)
_POSITION_WORD = re.compile(r"unkpos_(-?\d+)")


def is_position_word(word: str) -> bool:
    """Returns whether a word is "unkpos_d", for any distance d, or "unkpos_null"."""
    return word == NO_POSITION_WORD or position_distance(word) is not None


def stands_for_unknown(word: str) -> bool:
    """Returns whether a target word is "<unk>" or a position word."""
    return word == UNKNOWN_WORD or is_position_word(word)


def position_distance(word: str) -> int | None:
    """Returns the distance d of a target word "unkpos_d" from its source word; `None` for any other word.

    Example:

    >>> position_distance("unkpos_-2"), position_distance("unkpos_null"), position_distance("house")
    (-2, None, None)
    """
    match = _POSITION_WORD.fullmatch(word)
    return int(match[1]) if match else None


def position_word_indices(links: Iterable[tuple[int, int]], target_words: int) -> Sequence[int]:
    """Returns the position word that replaces each word of a target if the word is unknown.

    A target word at j that is aligned to the source word at i becomes "unkpos_d", d = j - i. If it is aligned to
    several source words, the nearest one, with the smallest |d|, is used; of two at the same distance, the first.

    Args:
        links: iterable of pairs of source position and target position, from 0.
        target_words: int. Number of words in the target.

    Returns:
        list of int. An index into `POSITION_WORDS` for each target word.

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
    """Joins units of byte-pair encoding, in which "@@" marks that the word continues: "transl@@ ation".

    An unknown word is a separate word.

    Example:

    >>> join_bpe(["a", "transl@@", "at@@", "ion", "Mün@@", "<unk>"])
    'a translation Mün <unk>'
    """
    return (" ".join(_with_unknown_apart(pieces, False)) + " ").replace(GOES_ON + " ", "").strip(" ")


def join_sentencepiece(pieces: Sequence[str]) -> str:
    """Joins pieces of SentencePiece, in which "\\u2581" marks the beginning of a word.

    An unknown word is a separate word.

    Example:

    >>> join_sentencepiece(["\\u2581a", "\\u2581transl", "ation", "<unk>"])
    'a translation <unk>'
    """
    pieces = " ".join(_with_unknown_apart(pieces, True)).split(" ")
    return "".join(pieces).replace(BEGINS, " ").strip(" ")


def begin_with_marks(pieces: Sequence[str]) -> bool:
    """Returns whether the pieces are those of SentencePiece."""
    return any(piece.startswith(BEGINS) for piece in pieces)


def word_around(pieces: Sequence[str], i: int) -> list[str]:
    """Returns the pieces of the word that contains piece i; only that piece if the pieces have no marks.

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
    """Joins the pieces of a single word.

    Example:

    >>> word_text(["M@@", "ün@@", "chen"]), word_text(["\u2581Mün", "chen"])
    ('München', 'München')
    """
    return "".join(piece.removesuffix(GOES_ON) for piece in pieces).removeprefix(BEGINS)


def words_apart(pieces: Sequence[str], numbers: Collection[int], with_beginnings: bool) -> list[str]:
    """Changes the marks of pieces so that the given pieces are separate words.

    Args:
        pieces: list of str.
        numbers: indices of the pieces that become separate words.
        with_beginnings: bool. Whether the pieces are those of SentencePiece.

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
    """Reads a dictionary, a file with a source word, a tab and its translation on each line.

    Moses's escapes are replaced by their characters. A third column, such as a count, is ignored.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding, see `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an error.
        can_declare: bool. Whether the user can declare another encoding, which the error then suggests. Defaults to
            `True`.

    Returns:
        dict from source word to target word.

    Raises:
        InputError: if a line does not have this form, or a source word occurs twice.
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
                plural = "s" if len(columns) > 1 else ""
                found = f"found {len(columns)} column{plural} in {quoted(text)}"
                raise InputError(found, expected, "correct the line", path, number)
            if words[0] in dictionary:
                expected = "expected one translation of each word"
                raise InputError(f"found {quoted(words[0])} twice", expected, "remove a line", path, number)
            dictionary[words[0]] = words[1]
    return dictionary
