"""The words that may follow in the targets of a source, inside an exported graph."""

import numpy as np
import tensorflow as tf

from keras_encdec.text.lexical_shortlist import LexicalShortlist
from keras_encdec.text.vocabulary import FIRST_WORD, PADDING, Vocabulary


class ServedShortlist:
    """Finds the words that may follow, as `LexicalShortlist` does.

    Args:
        shortlist: LexicalShortlist.
        vocabulary: Vocabulary of the targets.

    Attributes:
        resources: list of the table and the variable that `allowed` uses. They must be saved with it.
    """

    def __init__(self, shortlist: LexicalShortlist, vocabulary: Vocabulary) -> None:
        always = np.zeros(FIRST_WORD + len(vocabulary), bool)
        always[:FIRST_WORD] = always[shortlist.always] = True
        self._always = always
        lists = list(shortlist.of_word.values())
        words = list(shortlist.of_word)
        # A source word that is also a target word may be copied.
        numbers = {word: number for number, word in enumerate(words)}
        for i, word in enumerate(vocabulary.words, start=FIRST_WORD):
            if word in numbers:
                lists[numbers[word]] = np.append(lists[numbers[word]], np.int32(i))
            else:
                words.append(word)
                lists.append(np.array([i], np.int32))
        width = max(map(len, lists), default=0)
        # The last row is that of all other words.
        rows = [np.pad(ids, (0, width - len(ids)), constant_values=PADDING) for ids in lists]
        self._rows = tf.Variable(np.array([*rows, np.zeros(width)], np.int32), trainable=False)
        keys = tf.constant(words, tf.string, (len(words),))
        numbers_of_keys = tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(words), dtype=tf.int64))
        self._table = tf.lookup.StaticHashTable(numbers_of_keys, default_value=len(words))
        self.resources = [self._table, self._rows]

    def allowed(self, words: tf.Tensor) -> tf.Tensor:
        """Returns which ids may follow in the targets of each source.

        Args:
            words: string tensor `(sources, s)`, padded with "".

        Returns:
            boolean tensor `(sources, ids)`.
        """
        sources = tf.shape(words)[0]
        ids = tf.reshape(tf.gather(self._rows, self._table.lookup(words)), tf.stack([sources, -1]))
        row = tf.broadcast_to(tf.range(sources)[:, None], tf.shape(ids))
        shape = tf.stack([sources, len(self._always)])
        marked = tf.scatter_nd(tf.stack([row, ids], axis=-1), tf.ones_like(ids), shape) > 0
        return marked | self._always
