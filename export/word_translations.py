"""Translations of source words in a served model, with core TensorFlow operations: shortlists and unknown words."""

from collections.abc import Collection

import numpy as np
import tensorflow as tf

from keras_encdec.data import pad
from keras_encdec.decoding.unknown_speller import LOWEST_LOG_PROB, TRANSLATIONS
from keras_encdec.export.phrase_ids import PhraseIds
from keras_encdec.export.scoring_graph import spelling_log_probs
from keras_encdec.models.characters import Speller
from keras_encdec.text.lexical_shortlist import LexicalShortlist, RareTranslations
from keras_encdec.text.vocabulary import END, FIRST_WORD, PADDING, SPELLING_WIDTH, Vocabulary, spelled


class ServedShortlist:
    """Finds the words that targets of a source may contain, as `LexicalShortlist` does.

    Attributes:
        resources: list of the table and the variable that `allowed` uses. They must be saved with it.
    """

    def __init__(self, shortlist: LexicalShortlist, vocabulary: Vocabulary) -> None:
        always = np.zeros(FIRST_WORD + len(vocabulary), bool)
        always[:FIRST_WORD] = always[shortlist.always_allowed_ids] = True
        self._always = always
        ids_of = {word: ids.tolist() for word, ids in shortlist.translation_ids.items()}
        for i, word in enumerate(vocabulary.words, start=FIRST_WORD):
            ids_of.setdefault(word, []).append(i)  # a source word that is also a target word may be copied
        # The last row serves all other words.
        self._rows = tf.Variable(pad([*ids_of.values(), []]), trainable=False)
        self._table = _word_table(ids_of, len(ids_of))
        self.resources = [self._table, self._rows]

    def allowed(self, words: tf.Tensor) -> tf.Tensor:
        """Returns which ids targets may contain, `(sources, ids)`, for sources `(sources, s)`, padded with ""."""
        sources = tf.shape(words)[0]
        ids = tf.reshape(tf.gather(self._rows, self._table.lookup(words)), tf.stack([sources, -1]))
        marked = tf.scatter_nd(_with_rows(ids), tf.ones_like(ids), tf.stack([sources, len(self._always)])) > 0
        return marked | self._always


class ServedTranslations:
    """Chooses between the spelling of an unknown word and translations, as `decoding.UnknownSpeller` does.

    Args:
        rare: RareTranslations.
        vocabulary: Vocabulary of the targets, with characters.
        target_ids: PhraseIds of the targets.
        weight: float. The weight of the translations, from 0 to 1.

    Attributes:
        resources: list of the tables and the variables that the functions use. They must be saved with them.
    """

    def __init__(self, rare: RareTranslations, vocabulary: Vocabulary, target_ids: PhraseIds, weight: float) -> None:
        assert vocabulary.characters is not None
        self._target_ids, self._weight = target_ids, weight
        translations = {source: targets for source, targets in rare.translations.items() if targets}
        targets = list(dict.fromkeys(word for row in translations.values() for word in row))
        numbers = {word: number for number, word in enumerate(targets)}
        self._width = max([TRANSLATIONS, *map(len, translations.values())])
        # The last row serves source words without translations.
        ids = np.full((len(translations) + 1, self._width), -1, np.int32)
        probabilities = np.zeros(ids.shape, np.float32)
        for row, probability_of in enumerate(translations.values()):
            ids[row, : len(probability_of)] = [numbers[word] for word in probability_of]
            probabilities[row, : len(probability_of)] = list(probability_of.values())
        spellings = spelled(targets, vocabulary.characters)
        self._ids, self._probabilities, self._spellings = (
            tf.Variable(table, trainable=False) for table in (ids, probabilities, spellings)
        )
        self._rows, self._numbers = _word_table(translations, len(translations)), _word_table(targets, -1)
        self.resources = [self._rows, self._numbers, self._ids, self._probabilities, self._spellings]

    def best(
        self,
        speller: Speller,
        first: tf.Tensor,
        attention: tf.Tensor,
        source: tf.Tensor,
        source_words: tf.Tensor,
        ids: tf.Tensor,
        log_probs: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Chooses the most probable word for each unknown word.

        Args:
            speller: Speller of the model.
            first: float tensor `(words, units)`: the states that the spellings start from.
            attention: float tensor `(words, s)`: the attention of each unknown word to the words of its source.
            source: int32 tensor `(words,)`: the row of each word's source.
            source_words: string tensor `(sources, s)`, padded with "".
            ids: int32 tensor `(words, t)`: the characters that the search found, closed by the end mark and padded.
            log_probs: float32 tensor `(words,)`: ln p of these characters.

        Returns:
            tuple: int32 tensor `(words, 51)`, the characters of the chosen words; float32 tensor `(words,)`, their
            ln p; float32 tensor `(words,)`, ln of the words' probabilities, at least `LOWEST_LOG_PROB`.
        """
        translation_rows, probabilities, spellings = self._translation_table(source_words)
        attention = tf.cast(attention, tf.float32) * tf.cast(tf.gather(source_words, source) != "", tf.float32)
        attention /= tf.maximum(tf.reduce_sum(attention, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        parts = tf.repeat(attention, self._width, axis=1) * tf.gather(probabilities, source)
        # If several source words have the same translation, their parts are added up where it comes first. Equally
        # probable words then compete in the order of the source and the table, as in `UnknownSpeller`.
        indices = _with_rows(tf.gather(_first_positions(translation_rows), source))
        translated, positions = tf.math.top_k(tf.scatter_nd(indices, parts, tf.shape(parts)), TRANSLATIONS)
        words = tf.gather(tf.gather(translation_rows, source), positions, batch_dims=1)
        candidates = tf.gather(spellings, tf.maximum(words, 0))
        character_log_probs = spelling_log_probs(
            speller, tf.repeat(first, TRANSLATIONS, axis=0), tf.reshape(candidates, [-1, SPELLING_WIDTH])
        )
        character_log_probs = tf.reshape(character_log_probs, tf.shape(words))
        log_spelling_weight = tf.math.log(1 - self._weight)
        values = tf.reduce_logsumexp(
            [log_spelling_weight + character_log_probs, tf.math.log(self._weight * translated)], axis=0
        )
        values = tf.where((words >= 0) & (translated > 0) & (character_log_probs > -np.inf), values, -np.inf)
        # Of equally probable words, the one whose characters are more probable is chosen.
        tables = candidates, character_log_probs, values
        order = tf.argsort(character_log_probs, axis=1, direction="DESCENDING", stable=True)
        candidates, character_log_probs, values = (tf.gather(table, order, batch_dims=1) for table in tables)
        values = tf.concat([log_spelling_weight + log_probs[:, None], values], 1)
        best = tf.argmax(values, axis=1, output_type=tf.int32)
        ids = tf.pad(ids, [[0, 0], [0, SPELLING_WIDTH]])[:, :SPELLING_WIDTH]
        tables = (
            tf.concat([ids[:, None], candidates], 1),
            tf.concat([log_probs[:, None], character_log_probs], 1),
            values,
        )
        candidates, log_probs, values = (tf.gather(table, best, batch_dims=1) for table in tables)
        return candidates, log_probs, tf.maximum(values, LOWEST_LOG_PROB)

    def _translation_table(self, source_words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the translations of the words of each source.

        Returns:
            tuple: int32 tensor `(sources, n)`, the row of each translation in the third table, or -1; float32 tensor of
            this shape, t(translation | source word); int32 tensor `(rows, 51)`, spellings.
        """
        rows = self._rows.lookup(source_words)
        ids, probabilities = tf.gather(self._ids, rows), tf.gather(self._probabilities, rows)
        distinct, number = tf.unique(tf.reshape(source_words, [-1]))
        characters = self._target_ids.characters
        assert characters is not None
        spellings = characters(distinct)
        # A word that spelling and joining leave unchanged has only known characters, in normal form, and fewer than 50.
        can_copy = (characters.words(spellings) == distinct) & (spellings[:, -1] == PADDING)
        can_copy &= (spellings[:, 0] > END) & ~self._target_ids.has(distinct)
        # A word may be copied, and be the translation of another word of the source.
        known = tf.cast(self._numbers.lookup(distinct), tf.int32)
        new = tf.shape(self._spellings)[0] + tf.range(tf.size(distinct))
        copied = tf.where(can_copy, tf.where(known >= 0, known, new), -1)
        copied = tf.reshape(tf.gather(copied, number), tf.shape(source_words))
        is_copied = (ids[:, :, 0] < 0) & (copied >= 0)
        is_first = tf.range(self._width) == 0
        ids = tf.where(is_copied[:, :, None] & is_first, copied[:, :, None], ids)
        probabilities = tf.where(is_copied[:, :, None] & is_first, 1.0, probabilities)
        shape = tf.stack([tf.shape(source_words)[0], -1])
        return tf.reshape(ids, shape), tf.reshape(probabilities, shape), tf.concat([self._spellings, spellings], 0)


def _first_positions(numbers: tf.Tensor) -> tf.Tensor:
    """Returns for each number in a row the position at which it comes first in this row, int32."""
    order = tf.argsort(numbers, axis=1, stable=True)
    in_order = tf.gather(numbers, order, batch_dims=1)
    is_new = tf.pad(tf.cast(in_order[:, 1:] != in_order[:, :-1], tf.int32), [[0, 0], [1, 0]])
    group = tf.cumsum(is_new, axis=1)
    first = tf.fill(tf.shape(group), tf.shape(group)[1])
    first = tf.gather(tf.tensor_scatter_nd_min(first, _with_rows(group), order), group, batch_dims=1)
    return tf.scatter_nd(_with_rows(order), first, tf.shape(first))


def _with_rows(columns: tf.Tensor) -> tf.Tensor:
    """Returns the indices of elements of a matrix, `(rows, n, 2)`, from those of their columns, `(rows, n)`."""
    rows = tf.broadcast_to(tf.range(tf.shape(columns)[0])[:, None], tf.shape(columns))
    return tf.stack([rows, columns], axis=-1)


def _word_table(words: Collection[str], default: int) -> tf.lookup.StaticHashTable:
    """Makes a table of the indices of words, int64; other words have the default."""
    # TensorFlow cannot make an empty table.
    keys = tf.constant([word.encode("utf-8", "surrogateescape") for word in words] or [b""])
    indices = tf.constant(list(range(len(words))) or [default], tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, indices), default)
