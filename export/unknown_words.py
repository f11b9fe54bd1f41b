"""Spells or replaces the unknown words of targets in an exported graph, with core TensorFlow operations only."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_encdec.backend.types import Encoded, Memory, State
from keras_encdec.decoding.beam_sampler import BeamSampler
from keras_encdec.decoding.generator import CHARACTER_BEAM
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.export.scoring_graph import Tensors, TokenStates, over_tokens
from keras_encdec.export.search_graph import SearchResults, search_in_graph
from keras_encdec.export.word_translations import ServedTranslations
from keras_encdec.models.characters import CharacterDecoder
from keras_encdec.models.contract import Decoder
from keras_encdec.models.spelling_rules import SpellingRules
from keras_encdec.text.tokenizer import CONTINUATION_MARK, WORD_START_MARK
from keras_encdec.text.vocabulary import (
    FIRST_WORD,
    MAX_WORD_LENGTH,
    UNKNOWN,
    UNKNOWN_WORD,
    Vocabulary,
    is_position_word,
    position_distance,
    stands_for_unknown,
)
from keras_encdec.trained_model import TRANSLATE_INSTEAD, check_can_replace_unknown


class ServedReplacement:
    """Replaces unknown words as `decoding.UnknownReplacement` does.

    Args:
        vocabulary: Vocabulary of the targets.
        translations: dict from source word to target word; other source words are copied.
        has_attention: bool. Whether the model has attention.

    Raises:
        ConfigurationError: a ValueError, for a model that spells words, or has neither attention nor position words.

    Attributes:
        resources: list of the table of the translations. It must be saved with the functions that use it.
    """

    def __init__(self, vocabulary: Vocabulary, translations: Mapping[str, str], has_attention: bool) -> None:
        has_position_words = any(map(is_position_word, vocabulary.words))
        spells_words = vocabulary.characters is not None
        check_can_replace_unknown(has_attention, has_position_words, spells_words, TRANSLATE_INSTEAD)
        size = FIRST_WORD + len(vocabulary)
        self._has_attention = has_attention
        self._is_unknown, self._has_distance = np.zeros(size, bool), np.zeros(size, bool)
        self._distances = np.zeros(size, np.int32)
        self._is_unknown[UNKNOWN] = True
        for i, word in enumerate(vocabulary.words, start=FIRST_WORD):
            self._is_unknown[i], distance = stands_for_unknown(word), position_distance(word)
            # A distance that is larger than any source could overflow the type.
            if distance is not None:
                self._has_distance[i], self._distances[i] = True, np.clip(distance, -(2**30), 2**30)
        translations = translations or {"": ""}  # TensorFlow cannot make an empty table
        sides = (tf.constant(list(side), tf.string) for side in (translations.keys(), translations.values()))
        self._table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*sides), default_value="")
        self.resources = [self._table]

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
        attended = tf.where(links < 0, -1 - links, links) if self._has_attention else -tf.ones_like(links)
        positions = tf.where(is_named, positions, attended)
        is_known_position = (positions >= 0) & (positions < words_of_source)
        whole_words, are_sentencepieces = _whole_words(source_words)
        is_unknown = tf.gather(self._is_unknown, ids)
        translated = self._translated(whole_words, are_sentencepieces[:, None])
        replaced = tf.gather(translated, tf.where(is_known_position, positions, 0), batch_dims=1)
        words = tf.where(is_unknown, tf.where(is_known_position, replaced, UNKNOWN_WORD), words)
        return _separate_words(words, is_unknown & is_known_position, are_sentencepieces[:, None, None])

    def _translated(self, words: tf.Tensor, are_sentencepieces: tf.Tensor) -> tf.Tensor:
        """Returns the translations of source words, or the words themselves if they have none."""
        text = tf.strings.regex_replace(
            tf.strings.regex_replace(words, f"{CONTINUATION_MARK} | ", ""), f"^{WORD_START_MARK}", ""
        )
        first, second = self._table.lookup(text), self._table.lookup(words)
        has_marks = tf.strings.regex_full_match(first, f"(?s).*{WORD_START_MARK}.*")
        marked = tf.strings.regex_replace(first, " ", f" {WORD_START_MARK}")  # otherwise, its words would be joined
        first = tf.where(are_sentencepieces & ~has_marks, marked, first)
        return tf.where(first != "", first, tf.where(second != "", second, words))


def _whole_words(pieces: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Finds the whole word that each subword unit belongs to, as `text.tokenizer.word_around` does.

    Args:
        pieces: string tensor `(sources, s)`.

    Returns:
        tuple: string tensor `(sources, s)`, the units of each whole word separated by spaces; bool tensor
        `(sources,)`, whether the source has SentencePiece's marks, which stand before the units that begin a word.
    """
    begins = tf.strings.regex_full_match(pieces, f"(?s){WORD_START_MARK}.*")
    are_sentencepieces = tf.reduce_any(begins, axis=1)
    continues_word = tf.pad(tf.strings.regex_full_match(pieces, f"(?s).*{CONTINUATION_MARK}"), [[0, 0], [1, 0]])[:, :-1]
    continues_word |= are_sentencepieces[:, None] & ~begins
    # No word continues from the previous source, or into padding.
    is_first = tf.range(tf.shape(pieces)[1]) == 0
    numbers = tf.cumsum(tf.reshape(tf.cast(~continues_word | is_first | (pieces == ""), tf.int32), (-1,))) - 1
    flat = tf.reshape(pieces, (-1,))
    joined = tf.strings.unsorted_segment_join(flat, numbers, tf.size(flat), separator=" ")
    whole_words = tf.strings.regex_replace(tf.gather(joined, numbers), f"{CONTINUATION_MARK}$", "")
    return tf.reshape(whole_words, tf.shape(pieces)), are_sentencepieces


def _separate_words(pieces: tf.Tensor, apart: tf.Tensor, are_sentencepieces: tf.Tensor) -> tf.Tensor:
    """Does what `text.tokenizer.separate_words` does, for subword units `(sources, results, t)`."""
    before_one = tf.pad(apart, [[0, 0], [0, 0], [0, 1]])[:, :, 1:]
    after_one = tf.pad(apart, [[0, 0], [0, 0], [1, 0]])[:, :, :-1]
    pieces = tf.where(before_one & ~apart, tf.strings.regex_replace(pieces, f"{CONTINUATION_MARK}$", ""), pieces)
    marked = WORD_START_MARK + tf.strings.regex_replace(pieces, f"^{WORD_START_MARK}", "")
    return tf.where(are_sentencepieces & (apart | after_one & (pieces != "")), marked, pieces)


# Seeds of the characters of a word are below this number.
SEEDS = 1 << 62


class SpelledResults(NamedTuple):
    """The results of a search, with the spellings of their unknown words.

    Attributes:
        results: SearchResults; ln p and scores include those of the characters.
        spelling_log_probs: float32 tensor `(sources, results)`: ln p of the characters alone, in nats.
        spellings: int32 tensor `(words, t)`, ids of characters, closed by the end mark and padded with 0.
        word: int32 tensor `(sources, results, t)`: the row in `spellings` of each unknown word; -1 for other tokens.
    """

    results: SearchResults
    spelling_log_probs: tf.Tensor
    spellings: tf.Tensor
    word: tf.Tensor


def spell_in_graph(
    decoder: Decoder,
    encoded: Tensors,
    results: SearchResults,
    sampler: Sampler,
    inputs: Tensors,
    rules: SpellingRules,
    translations: ServedTranslations | None,
    source_words: tf.Tensor,
) -> SpelledResults:
    """Spells the unknown words of the results of a search, as `decoding.UnknownSpeller` does.

    Args:
        decoder: Decoder with a speller.
        encoded: dict of tensors, the encoder's output, one row per source.
        results: SearchResults, one row per source.
        sampler: Sampler that generated them.
        inputs: dict of tensors `(sources,)`, see `search_in_graph`.
        rules: SpellingRules.
        translations: ServedTranslations, which compete with the spellings; `None` for none, and for a sampler that
            draws.
        source_words: string tensor `(sources, s)`, padded with "".

    Returns:
        SpelledResults, the best first; samples in the order of drawing.
    """
    assert decoder.speller is not None
    sources, number, _ = tf.unstack(tf.shape(results.ids))
    is_unknown = tf.reshape(results.ids == UNKNOWN, [sources * number, -1])
    # The number of each unknown word, in order.
    count = tf.reshape(tf.cumsum(tf.cast(tf.reshape(is_unknown, [-1]), tf.int32)), tf.shape(is_unknown))
    word = tf.where(is_unknown, count, 0) - 1
    hypothesis, position = tf.unstack(tf.cast(tf.where(is_unknown), tf.int32), axis=1)
    width = tf.shape(source_words)[1] if translations is not None else None
    first, *attention = _unknown_states(decoder, encoded, results.ids, word, tf.size(hypothesis), width)
    word_inputs = {name: tf.gather(values, hypothesis // number) for name, values in inputs.items()}
    if "seed" in word_inputs:
        keys = [word_inputs["seed"], tf.cast(hypothesis % number, tf.int64), tf.cast(position, tf.int64)]
        text = tf.strings.join([tf.strings.as_string(key) for key in keys], separator=" ")
        word_inputs["seed"] = tf.strings.to_hash_bucket_fast(text, SEEDS)
    character_sampler = sampler.character_sampler() or BeamSampler(CHARACTER_BEAM)
    limits = tf.fill(tf.shape(hypothesis), MAX_WORD_LENGTH)
    speller = _Speller(decoder.speller.decoder, rules)
    found = search_in_graph(
        speller, {"spelling": first}, tf.ones_like(hypothesis), limits, character_sampler, word_inputs
    )
    spellings, log_probs = found.ids[:, 0], found.log_probs[:, 0]
    ranked_by = log_probs
    if translations is not None:
        spellings, log_probs, ranked_by = translations.best(
            decoder.speller, first, attention[0], hypothesis // number, source_words, spellings, log_probs
        )
    sums = tf.math.unsorted_segment_sum(tf.stack([log_probs, ranked_by], axis=1), hypothesis, sources * number)
    log_probs, ranked_by = tf.unstack(tf.reshape(sums, [sources, number, 2]), axis=2)
    tokens = tf.math.count_nonzero(results.ids, axis=2, dtype=tf.float32)
    results = results._replace(
        log_probs=results.log_probs + log_probs, scores=results.scores + sampler.score_gain(ranked_by, tokens)
    )
    tables = [*results, log_probs, tf.reshape(word, tf.shape(results.ids))]
    if not sampler.needs_draws:
        order = tf.argsort(-results.scores, stable=True)
        tables = [tf.gather(table, order, batch_dims=1) for table in tables]
    *fields, log_probs, word = tables
    return SpelledResults(SearchResults(*fields), log_probs, spellings, word)


def _unknown_states(
    decoder: Decoder, encoded: Tensors, ids: tf.Tensor, word: tf.Tensor, words: tf.Tensor, width: tf.Tensor | None
) -> tuple[tf.Tensor, ...]:
    """Computes the decoder's states at the unknown words of hypotheses.

    Args:
        decoder: Decoder with a speller.
        encoded: dict of tensors, one row per source.
        ids: int32 tensor `(sources, results, t)`.
        word: int32 tensor `(sources * results, t)`: the number of each unknown word; -1 for other tokens.
        words: int32 scalar, the number of unknown words.
        width: int32 scalar, the largest number of source tokens; `None` if no attention is needed.

    Returns:
        tuple: float tensor `(words, units)`, the states that the spellings start from; with a `width` also
        `(words, width)`, the attention.
    """
    assert decoder.speller is not None

    def put(tokens: TokenStates, tables: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        tokens = tokens.where(tf.gather_nd(word, tokens.indices) >= 0)
        states = decoder.spelling_state(tokens.state, tokens.memory, tokens.source)
        numbers, rows = tf.gather_nd(word, tokens.indices)[:, None], (states, tokens.state["attention"])
        return tuple(tf.tensor_scatter_nd_update(table, numbers, new) for table, new in zip(tables, rows, strict=False))

    source = tf.repeat(tf.range(tf.shape(ids)[0]), tf.shape(ids)[1])
    ids = tf.reshape(ids, tf.shape(word))
    lengths = tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)
    widths = [decoder.speller.units, *([] if width is None else [width])]
    tables = tuple(tf.zeros(tf.stack([words, each])) for each in widths)
    return over_tokens(decoder, ids, lengths, encoded, source, put, tables)


class _Speller:
    """A `CharacterDecoder` for `search_in_graph` that follows the spelling rules."""

    has_attention = False

    def __init__(self, decoder: CharacterDecoder, rules: SpellingRules) -> None:
        self._decoder, self._rules = decoder, rules

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        state, memory = self._decoder.start(encoded)
        return {**state, **self._rules.first_state(tf.shape(encoded["spelling"])[0])}, memory

    def next_log_probs(
        self, previous: tf.Tensor, state: State, memory: Memory, candidates: Tensors | None = None
    ) -> tuple[tf.Tensor, State]:
        spelled = self._rules.next_state(previous, state)
        log_probs, state = self._decoder.next_log_probs(previous, state, memory)
        return self._rules.apply(log_probs, previous, spelled), {**state, **spelled}

    def candidate_weights(self, words: tf.Tensor, allowed: tf.Tensor) -> Tensors:
        return self._decoder.candidate_weights(words, allowed)
