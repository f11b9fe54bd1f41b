"""Replaces the unknown words of targets inside an exported graph, with core TensorFlow operations only."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from keras_encdec.configuration import ConfigurationError
from keras_encdec.text.rare_words import is_position_word, position_distance
from keras_encdec.text.tokenizer import BEGINS, GOES_ON
from keras_encdec.text.vocabulary import FIRST_WORD, UNKNOWN, UNKNOWN_WORD, Vocabulary


class ServedReplacement:
    """Replaces unknown words as `decoding.UnknownReplacement` does.

    Args:
        vocabulary: Vocabulary of the targets.
        translations: dict of source word to target word; other source words are copied.
        carries_attention: bool. Whether the model has attention.

    Attributes:
        table: `tf.lookup.StaticHashTable` of the translations. It must be saved with the functions that use it.

    Raises:
        ConfigurationError: a ValueError, for a model that has neither attention nor position words.
    """

    def __init__(self, vocabulary: Vocabulary, translations: Mapping[str, str], carries_attention: bool) -> None:
        ids = {FIRST_WORD + i: word for i, word in enumerate(vocabulary.words) if is_position_word(word)}
        if not ids and not carries_attention:
            raise ConfigurationError(
                "found {replace_unknown} with a model that has neither attention nor position words such as unkpos_0; "
                "drop it"
            )
        size = FIRST_WORD + len(vocabulary)
        self._carries_attention = carries_attention
        self._is_unknown, self._has_distance = np.zeros(size, bool), np.zeros(size, bool)
        self._distances = np.zeros(size, np.int32)
        self._is_unknown[[UNKNOWN, *ids]] = True
        for i, word in ids.items():
            distance = position_distance(word)
            # A distance larger than any source may not fit the type.
            if distance is not None:
                self._has_distance[i], self._distances[i] = True, np.clip(distance, -(2**30), 2**30)
        sides = (tf.constant(list(side), tf.string) for side in (translations.keys(), translations.values()))
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*sides), default_value="")

    def __call__(
        self, words: tf.Tensor, ids: tf.Tensor, links: tf.Tensor, source_words: tf.Tensor, source_lengths: tf.Tensor
    ) -> tf.Tensor:
        """Replaces the unknown words of targets.

        Args:
            words: string tensor `(sources, results, t)`.
            ids: int32 tensor of the same shape, the ids of the words.
            links: int32 tensor of the same shape, see `SearchResults`.
            source_words: string tensor `(sources, s)`, padded.
            source_lengths: int32 tensor `(sources,)`: number of tokens of each source, with the end of
                sequence.

        Returns:
            string tensor `(sources, results, t)`.
        """
        words_of_source = source_lengths[:, None, None] - 1
        positions = tf.range(tf.shape(ids)[2]) - tf.gather(self._distances, ids)
        is_named = tf.gather(self._has_distance, ids) & (positions >= 0) & (positions < words_of_source)
        attended = tf.where(links < 0, -1 - links, links) if self._carries_attention else -tf.ones_like(links)
        positions = tf.where(is_named, positions, attended)
        is_known_position = (positions >= 0) & (positions < words_of_source)
        whole, begin_with_marks = _whole_words(source_words)
        is_unknown = tf.gather(self._is_unknown, ids)
        replaced = tf.gather(self._translated(whole), tf.where(is_known_position, positions, 0), batch_dims=1)
        words = tf.where(is_unknown, tf.where(is_known_position, replaced, UNKNOWN_WORD), words)
        return _words_apart(words, is_unknown & is_known_position, begin_with_marks[:, None, None])

    def _translated(self, words: tf.Tensor) -> tf.Tensor:
        """Returns the translations of source words, or the words themselves if they have none."""
        text = tf.strings.regex_replace(tf.strings.regex_replace(words, f"{GOES_ON} | ", ""), f"^{BEGINS}", "")
        first, second = self.table.lookup(text), self.table.lookup(words)
        return tf.where(first != "", first, tf.where(second != "", second, words))


def _whole_words(pieces: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the whole word that each subword unit belongs to, as `text.tokenizer.word_around` does.

    Args:
        pieces: string tensor `(sources, s)`.

    Returns:
        tuple: string tensor `(sources, s)`, the units of each whole word separated by spaces; bool tensor
        `(sources,)`, whether the source has SentencePiece's marks, which stand before the units that begin a word.
    """
    begins = tf.strings.regex_full_match(pieces, f"(?s){BEGINS}.*")
    begin_with_marks = tf.reduce_any(begins, axis=1)
    goes_on = tf.pad(tf.strings.regex_full_match(pieces, f"(?s).*{GOES_ON}"), [[0, 0], [1, 0]])[:, :-1]
    goes_on |= begin_with_marks[:, None] & ~begins
    # No word continues from the previous source, or into padding.
    is_first = tf.range(tf.shape(pieces)[1]) == 0
    numbers = tf.cumsum(tf.reshape(tf.cast(~goes_on | is_first | (pieces == ""), tf.int32), (-1,))) - 1
    flat = tf.reshape(pieces, (-1,))
    joined = tf.strings.unsorted_segment_join(flat, numbers, tf.size(flat), separator=" ")
    whole = tf.strings.regex_replace(tf.gather(joined, numbers), f"{GOES_ON}$", "")
    return tf.reshape(whole, tf.shape(pieces)), begin_with_marks


def _words_apart(pieces: tf.Tensor, apart: tf.Tensor, begin_with_marks: tf.Tensor) -> tf.Tensor:
    """Does what `text.tokenizer.words_apart` does, for subword units `(sources, results, t)`."""
    before_one = tf.pad(apart, [[0, 0], [0, 0], [0, 1]])[:, :, 1:]
    after_one = tf.pad(apart, [[0, 0], [0, 0], [1, 0]])[:, :, :-1]
    pieces = tf.where(before_one & ~apart, tf.strings.regex_replace(pieces, f"{GOES_ON}$", ""), pieces)
    marked = BEGINS + tf.strings.regex_replace(pieces, f"^{BEGINS}", "")
    return tf.where(begin_with_marks & (apart | after_one & (pieces != "")), marked, pieces)
