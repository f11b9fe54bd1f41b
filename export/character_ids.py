"""Maps words to the ids of their characters in an exported graph, with core operations only."""

import sys
import unicodedata

import numpy as np
import tensorflow as tf

from keras_encdec.export.scoring_graph import sequential_loop
from keras_encdec.text.vocabulary import END, FIRST_WORD, LONGEST_WORD, PADDING, READ_CHARACTERS, UNKNOWN, Vocabulary

# Stands for no character. It pads words, and the tables return it for a code point that they do not contain.
NONE = -1
# The combining class of a code point is less than this number.
CLASSES = 256


class CharacterIds:
    """Maps words to spellings, as `text.vocabulary.spelled` does, and spellings to words.

    Attributes:
        resources: list of the tables that the functions use. They must be saved with them.
    """

    def __init__(self, characters: Vocabulary) -> None:
        ids = {ord(character): i for i, character in enumerate(characters.words, FIRST_WORD) if len(character) == 1}
        self._ids = _table(ids, UNKNOWN)
        self._characters = [b""] * FIRST_WORD + [word.encode("utf-8", "surrogateescape") for word in characters.words]
        self._composition = CanonicalComposition()
        self.resources = [self._ids, *self._composition.resources]

    def __call__(self, words: tf.Tensor) -> tf.Tensor:
        """Spells words in UTF-8, strings `(n,)`, as `spelled` does: int32 tensor `(n, 51)`."""
        words = tf.strings.substr(words, 0, READ_CHARACTERS, unit="UTF8_CHAR")
        codes = tf.strings.unicode_decode(words, "UTF-8").to_tensor(NONE)
        codes = self._composition(codes)
        codes = tf.pad(codes, [[0, 0], [0, LONGEST_WORD]], constant_values=NONE)[:, :LONGEST_WORD]
        ids = tf.where(codes == NONE, PADDING, self._ids.lookup(codes))
        lengths = tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)
        return tf.pad(ids, [[0, 0], [0, 1]]) + END * tf.one_hot(lengths, LONGEST_WORD + 1, dtype=tf.int32)

    def words(self, ids: tf.Tensor) -> tf.Tensor:
        """Joins the characters of spellings without unknown characters: int32 `(n, t)` to strings `(n,)`."""
        return tf.strings.reduce_join(tf.gather(self._characters, ids), axis=-1)


class CanonicalComposition:
    """Unicode's normal form C of words, as `unicodedata.normalize` computes it.

    Characters are decomposed, and combining marks are sorted by their class. Each mark is then composed with the last
    character before it that is not a mark, unless a mark of the same or a higher class stands between them.

    Attributes:
        resources: list of the tables. They must be saved with the functions that use them.

    Reference:
        - The Unicode Standard, section 3.11, definitions D108 to D117
    """

    def __init__(self) -> None:
        decomposed, composed, classes = {}, {}, {}
        for code, character in enumerate(map(chr, range(sys.maxunicode + 1))):
            parts = unicodedata.normalize("NFD", character)
            if parts != character:
                decomposed[code] = parts
            is_normal = unicodedata.normalize("NFC", character) == character
            if is_normal and parts != character:
                composed[ord(unicodedata.normalize("NFC", parts[:-1])), ord(parts[-1])] = code
            if unicodedata.combining(character) or not is_normal:
                classes[code] = unicodedata.combining(character)
        classes |= {second: unicodedata.combining(chr(second)) for _, second in composed}
        width = max(map(len, decomposed.values()))
        rows = np.full((len(decomposed), width), NONE, np.int32)
        for row, characters in zip(rows, decomposed.values(), strict=True):
            row[: len(characters)] = list(map(ord, characters))
        self._rows = tf.constant(rows)
        self._row_of_code = _table({code: row for row, code in enumerate(decomposed)}, NONE)
        # A word without any of these characters is already in the normal form.
        self._class_of_code = _table(classes, NONE)
        self._composed = _table({first * 2**32 + second: code for (first, second), code in composed.items()}, NONE)
        self.resources = [self._row_of_code, self._class_of_code, self._composed]

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:
        """Normalizes words: int32 tensor `(n, t)` of code points, then -1, to one `(n, ...)`."""
        is_normal = tf.reduce_all(self._class_of_code.lookup(codes) == NONE)
        return tf.cond(is_normal, lambda: codes, lambda: _compacted(self._compose(*self._decomposed(codes))))

    def _decomposed(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the code points of decomposed words, with sorted marks, and their combining classes."""
        row = self._row_of_code.lookup(codes)
        alone = tf.pad(codes[:, :, None], [[0, 0], [0, 0], [0, self._rows.shape[1] - 1]], constant_values=NONE)
        parts = tf.where((row == NONE)[:, :, None], alone, tf.gather(self._rows, tf.maximum(row, 0)))
        codes = _compacted(tf.reshape(parts, [tf.shape(codes)[0], -1]))
        classes = tf.maximum(self._class_of_code.lookup(codes), 0)
        order = tf.argsort(tf.cumsum(tf.cast(classes == 0, tf.int32), axis=1) * CLASSES + classes, stable=True)
        return tuple(tf.gather(table, order, batch_dims=1) for table in (codes, classes))

    def _compose(self, codes: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        """Composes characters with the marks after them; -1 replaces each composed mark."""
        rows = tf.range(tf.shape(codes)[0])
        none = tf.fill(tf.shape(rows), NONE)

        def step(
            t: tf.Tensor, codes: tf.Tensor, base: tf.Tensor, last_class: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
            code, now = codes[:, t], classes[:, t]
            at_base = tf.stack([rows, tf.maximum(base, 0)], axis=1)
            pair = tf.cast(tf.gather_nd(codes, at_base), tf.int64) * 2**32 + tf.cast(code, tf.int64)
            composed = tf.where((base == NONE) | (last_class >= now), NONE, self._composed.lookup(pair))
            joins = composed != NONE
            codes = tf.tensor_scatter_nd_update(
                codes, tf.boolean_mask(at_base, joins), tf.boolean_mask(composed, joins)
            )
            at_code = tf.boolean_mask(tf.stack([rows, tf.fill(tf.shape(rows), t)], axis=1), joins)
            codes = tf.tensor_scatter_nd_update(codes, at_code, tf.fill([tf.shape(at_code)[0]], NONE))
            begins = ~joins & (now == 0)
            last_class = tf.where(joins, last_class, tf.where(begins, NONE, now))
            return t + 1, codes, tf.where(begins, t, base), last_class

        steps = tf.shape(codes)[1]
        return sequential_loop(lambda t, *_: t < steps, step, (0, codes, none, none))[1]


def _compacted(codes: tf.Tensor) -> tf.Tensor:
    """Moves each -1 to the end of its word, and drops the columns of the words `(n, t)` that are -1 throughout."""
    order = tf.argsort(tf.cast(codes == NONE, tf.int32), stable=True)
    longest = tf.reduce_max(tf.math.count_nonzero(codes != NONE, axis=1, dtype=tf.int32))
    return tf.gather(codes, order, batch_dims=1)[:, : tf.maximum(longest, 0)]


def _table(values: dict[int, int], default: int) -> tf.lookup.StaticHashTable:
    keys = tf.constant(list(values), tf.int64 if max(values, default=0) >= 2**31 else tf.int32, (len(values),))
    numbers = tf.constant(list(values.values()), tf.int32, (len(values),))
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, numbers), default)
