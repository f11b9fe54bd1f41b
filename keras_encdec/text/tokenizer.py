"""Tokenization of raw text, and joining of subwords into words: byte-pair units and pieces of SentencePiece."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from keras_encdec.runtime.imports import import_triton
from keras_encdec.text.vocabulary import UNKNOWN_WORD, stands_for_unknown

if TYPE_CHECKING:
    import tensorflow as tf

# Byte-pair encoding marks a unit that does not end its word: "transl@@ ation".
CONTINUATION_MARK = "@@"
# SentencePiece marks a piece that begins a word: "\u2581transl ation".
WORD_START_MARK = "\u2581"


class Tokenizer:
    r"""Splits raw text into words with TensorFlow operations.

    The text is normalized (NFKC), typographic apostrophes are replaced with plain ones, and case is folded on request.
    Every punctuation mark and symbol is a separate token, and so is "<unk>", which stands for the unknown word. White
    space and control characters separate tokens. The same operations run eagerly, in `tf.data` and in an exported
    graph, so that training and serving use the same words.

    Args:
        lowercase: bool. Whether to fold case. Unicode case folding also replaces "ß" with "ss", and removes invisible
            characters, such as zero-width joiners. Defaults to `False`.

    Raises:
        ImportError: if tensorflow-text is not installed (it has no wheels for some platforms).
            Text that is already tokenized needs no tokenizer.

    Example:

    >>> tokenizer = Tokenizer(lowercase=True)
    >>> [tokens.decode() for tokens in tokenizer(["Open the File…", "l’été", "a\u200db"]).numpy()]
    ['open the file . . .', "l ' été", 'ab']
    """

    def __init__(self, lowercase: bool = False) -> None:
        import_triton()
        try:
            import tensorflow_text  # noqa: F401
        except ImportError as error:
            raise ImportError(
                "Tokenizing raw text needs tensorflow-text, which is not installed or has no build for "
                "this platform: install it, or give text that is already tokenized."
            ) from error
        self.lowercase = lowercase

    def __call__(self, lines: "tf.Tensor | Sequence[str | bytes]") -> "tf.Tensor":
        """Tokenizes lines.

        Args:
            lines: string tensor or list `(n,)`, in UTF-8.

        Returns:
            string tensor `(n,)`: the tokens of each line, separated by single spaces.
        """
        import tensorflow as tf
        import tensorflow_text

        lines = tensorflow_text.normalize_utf8(tf.convert_to_tensor(lines, tf.string), "NFKC")
        lines = tf.strings.regex_replace(lines, "[\u2018\u2019]", "'")
        if self.lowercase:
            lines = tensorflow_text.case_fold_utf8(lines)
        lines = tf.strings.regex_replace(lines, rf"({UNKNOWN_WORD}|[\p{{P}}\p{{S}}])", r" \1 ")
        # WhitespaceTokenizer of tensorflow-text is not used because it separates the two bytes of U+0085.
        return tf.strings.strip(tf.strings.regex_replace(lines, r"[\p{Z}\p{Cc}]+", " "))

    def words(self, lines: Sequence[str]) -> list[list[str]]:
        """Tokenizes lines into lists of words.

        Args:
            lines: list of str. A lone surrogate, which stands for an undecodable byte, is replaced with "?".

        Returns:
            list of lists of str.
        """
        tokenized = self([line.encode("utf-8", "replace") for line in lines])
        return [line.decode().split(" ") if line else [] for line in tokenized.numpy()]


def join_bpe(pieces: Sequence[str]) -> str:
    """Joins units of byte-pair encoding, in which "@@" marks that the word continues: "transl@@ ation".

    An unknown word is a separate word.

    Example:

    >>> join_bpe(["a", "transl@@", "at@@", "ion", "Mün@@", "<unk>"])
    'a translation Mün <unk>'
    """
    return (" ".join(_separate_unknown(pieces, False)) + " ").replace(CONTINUATION_MARK + " ", "").strip(" ")


def join_sentencepiece(pieces: Sequence[str]) -> str:
    r"""Joins pieces of SentencePiece, in which "\u2581" marks the beginning of a word.

    An unknown word is a separate word.

    Example:

    >>> join_sentencepiece(["\u2581a", "\u2581transl", "ation", "<unk>"])
    'a translation <unk>'
    """
    pieces = " ".join(_separate_unknown(pieces, True)).split(" ")
    return "".join(pieces).replace(WORD_START_MARK, " ").strip(" ")


def are_sentencepieces(pieces: Sequence[str]) -> bool:
    """Returns whether subword units are pieces of SentencePiece: whether any has the mark that begins a word."""
    return any(piece.startswith(WORD_START_MARK) for piece in pieces)


def word_around(pieces: Sequence[str], i: int) -> list[str]:
    """Returns the pieces of the word that contains piece i; only that piece if the pieces have no marks.

    Example:

    >>> word_around(["in", "M@@", "ün@@", "chen", "."], 2)
    ['M@@', 'ün@@', 'chen']
    """
    sentencepieces = are_sentencepieces(pieces)

    def continues_word(j: int) -> bool:
        before, piece = pieces[j - 1 : j + 1]
        return before.endswith(CONTINUATION_MARK) or sentencepieces and not piece.startswith(WORD_START_MARK)

    start, stop = i, i + 1
    while start > 0 and continues_word(start):
        start -= 1
    while stop < len(pieces) and continues_word(stop):
        stop += 1
    return list(pieces[start:stop])


def word_text(pieces: Sequence[str]) -> str:
    """Joins the pieces of a single word.

    Example:

    >>> word_text(["M@@", "ün@@", "chen"]), word_text(["\u2581Mün", "chen"])
    ('München', 'München')
    """
    return "".join(piece.removesuffix(CONTINUATION_MARK) for piece in pieces).removeprefix(WORD_START_MARK)


def separate_words(pieces: Sequence[str], indices: Collection[int], sentencepieces: bool) -> list[str]:
    """Changes the marks of pieces so that the given pieces are separate words.

    Args:
        pieces: list of str.
        indices: indices of the pieces that become separate words.
        sentencepieces: bool. Whether the pieces are those of SentencePiece.

    Example:

    >>> separate_words(["M@@", "Tom", "chen"], [1], False)
    ['M', 'Tom', 'chen']
    """
    separate = list(pieces)
    for j in indices:
        if j > 0 and j - 1 not in indices:
            separate[j - 1] = separate[j - 1].removesuffix(CONTINUATION_MARK)
        if sentencepieces:
            for k in range(j, min(j + 2, len(separate))):
                separate[k] = WORD_START_MARK + separate[k].removeprefix(WORD_START_MARK)
    return separate


def _separate_unknown(pieces: Sequence[str], sentencepieces: bool) -> list[str]:
    unknown = [j for j, piece in enumerate(pieces) if stands_for_unknown(piece)]
    return separate_words(pieces, unknown, sentencepieces)


SUBWORD_JOINERS = {"bpe": join_bpe, "sentencepiece": join_sentencepiece}
