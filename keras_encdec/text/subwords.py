"""Words from their pieces."""

from collections.abc import Sequence


def join_bpe(pieces: Sequence[str]) -> str:
    """Text of pieces that byte-pair encoding marks by "@@" where the word goes on: "transl@@ ation" is "translation".

    Example:

    >>> join_bpe(["a", "transl@@", "at@@", "ion"])
    'a translation'
    """
    return (" ".join(pieces) + " ").replace("@@ ", "").strip()


def join_sentencepiece(pieces: Sequence[str]) -> str:
    """Text of SentencePiece's pieces, of which "\\u2581" begins a word.

    Example:

    >>> join_sentencepiece(["\\u2581a", "\\u2581transl", "ation"])
    'a translation'
    """
    return "".join(pieces).replace("\u2581", " ").strip()


SUBWORD_JOINERS = {"bpe": join_bpe, "sentencepiece": join_sentencepiece}
