"""Unknown words in generated targets, replaced from the source."""

from collections.abc import Mapping, Sequence

import numpy as np

from keras_encdec.text.position_words import is_position_word, position_distance, stands_for_unknown
from keras_encdec.text.subwords import GOES_ON, begin_with_marks, word_around, word_text, words_apart
from keras_encdec.text.vocabulary import UNKNOWN_WORD


class UnknownReplacement:
    """Replaces unknown words by the translation of the source word that they come from.

    A word "unkpos_d" at target position j comes from the source word at j - d, if the source has one there; any other
    unknown word from the source word that it attends to most. It becomes the dictionary's translation of this source
    word or, where there is none, the source word itself. It stays "<unk>" where a model without attention names no
    source word: "<unk>", "unkpos_null", and "unkpos_d" with j - d outside the source.

    Of text that was cut into subwords (by byte-pair encoding with "@@", or SentencePiece with "\u2581"), the whole
    source word counts, and stands as a word of its own: what is copied are all its pieces, separated by spaces.

    Args:
        dictionary: dict of source word to target word. Defaults to `None`: source words are copied.

    Example:

    >>> replacement = UnknownReplacement({"chat": "cat"})
    >>> replacement.replaced(["the", "<unk>", "<unk>"], ["le", "chat", "Tom"], np.eye(4))
    ['the', 'cat', 'Tom']
    >>> replacement.replaced(["the", "unkpos_0"], ["le", "chat"])
    ['the', 'cat']

    Reference:
        - Luong et al., 2015, "Addressing the Rare Word Problem in Neural Machine Translation" (arXiv 1410.8206)
        - Jean et al., 2015 (arXiv 1412.2007), section 3.3: by attention
    """

    def __init__(self, dictionary: Mapping[str, str] | None = None) -> None:
        self._dictionary = dict(dictionary or {})

    def replaced(
        self, words: Sequence[str], source_words: Sequence[str], attention: np.ndarray | None = None
    ) -> list[str]:
        """The target's words.

        Args:
            words: list of str, the target, "<unk>" for the unknown word.
            source_words: list of str, the source as it was given.
            attention: float array `(tokens, source_tokens)`, see `Hypothesis`. Optional.
        """
        positions = {j: self._source_position(j, word, source_words, attention) for j, word in enumerate(words)}
        found = {j: i for j, i in positions.items() if i is not None}
        replaced = [UNKNOWN_WORD if is_position_word(word) else word for word in words]
        for j, i in found.items():
            replaced[j] = self._translated(source_words, i)
        return words_apart(replaced, found, begin_with_marks(source_words))

    def _source_position(self, j, word, source_words, attention):
        """Where in the source an unknown word at j comes from; `None` of a known word, and where that is not known."""
        if not stands_for_unknown(word):
            return None
        distance = position_distance(word)
        if distance is not None and 0 <= j - distance < len(source_words):
            return j - distance
        if attention is not None and source_words:
            return int(np.argmax(attention[j, : len(source_words)]))  # of words: the end of sequence is none
        return None

    def _translated(self, source_words, i):
        pieces = word_around(source_words, i)
        text, copied = word_text(pieces), " ".join(pieces).removesuffix(GOES_ON)
        return self._dictionary.get(text) or self._dictionary.get(copied, copied)
