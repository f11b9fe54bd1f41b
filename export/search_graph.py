"""Runs a sampler's search inside an exported graph, and replaces unknown words."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.generator import LENGTH_FACTOR, SHORTEST_LIMIT
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.models.contract import Decoder
from keras_encdec.text.rare_words import is_position_word, position_distance
from keras_encdec.text.subwords import BEGINS, GOES_ON
from keras_encdec.text.vocabulary import END, FIRST_WORD, PADDING, UNKNOWN, UNKNOWN_WORD, Vocabulary

# Largest number of target sequences that are extended together, unless one source needs more.
MOST_ROWS = 256
# Random numbers are multiples of 1 / DRAWS, which float32 represents exactly.
DRAWS = 1 << 24


def target_limits(lengths: tf.Tensor) -> tf.Tensor:
    """Computes the largest number of target tokens for each source, as `decoding` does. It counts the end of sequence.

    Args:
        lengths: int32 tensor `(sources,)`, the number of tokens of each source, with its end.

    Returns:
        int32 tensor `(sources,)`.
    """
    words = tf.cast(lengths - 1, tf.float32)
    limits = tf.maximum(SHORTEST_LIMIT, tf.cast(tf.math.ceil(LENGTH_FACTOR * words), tf.int32)) + 1
    return tf.where(lengths > 1, limits, 1)


class SearchResults(NamedTuple):
    """The results of a search in a graph. If a source has fewer hypotheses, the ids of the missing ones are 0.

    Attributes:
        ids: int32 tensor `(sources, results, t)`, closed by the end of sequence and padded with 0.
        log_probs: float32 tensor `(sources, results)`: ln p of each hypothesis in nats; the least float32 for a missing
            one, because JSON has no infinity.
        scores: float32 tensor `(sources, results)`: the score that ranks each hypothesis; the least float32 for a
            missing one.
        links: int32 tensor `(sources, results, t)`: the position s of the source word that each token attends to most;
            -1 - s if the token attends more to the end of the source; 0 for a model without attention.
    """

    ids: tf.Tensor
    log_probs: tf.Tensor
    scores: tf.Tensor
    links: tf.Tensor


def search_in_graph(
    decoder: Decoder,
    encoded: dict[str, tf.Tensor],
    lengths: tf.Tensor,
    limits: tf.Tensor,
    sampler: Sampler,
    inputs: dict[str, tf.Tensor],
) -> SearchResults:
    """Generates targets for sources: the same targets as `keras_encdec.decoding.Generator` finds with the sampler.

    Args:
        decoder: Decoder.
        encoded: dict of tensors, the encoder's output, one row per source.
        lengths: int32 tensor `(sources,)`: number of tokens of each source, with its end.
        limits: int32 tensor `(sources,)` from `target_limits`.
        sampler: Sampler.
        inputs: dict of tensors `(sources,)`, see `RegisteredSampler.inputs`. A sampler that draws needs "seed", int64:
            equal seeds give equal draws in any batch. The other inputs are arguments of the sampler's `initial`.

    Returns:
        SearchResults.

    Raises:
        ConfigurationError: a ValueError, when the sampler needs attention and the decoder has none.
    """
    if sampler.needs_attention and not decoder.carries_attention:
        raise ConfigurationError("found {coverage_penalty} with a model that has no attention; drop it")
    sources, width = tf.size(limits), tf.reduce_max(tf.concat([[1], limits], 0))
    size = max(1, MOST_ROWS // sampler.rows_per_source)
    shape = tf.stack([sources, sampler.results_per_source])
    tokens = tf.zeros(tf.concat([shape, [width]], 0), tf.int32)
    results = tokens, tf.zeros(shape), tf.zeros(shape), tokens

    def part(start, *results):
        indices = tf.range(start, tf.minimum(start + size, sources))
        given = tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices), (encoded, lengths, limits, inputs))
        parts = _search(decoder, sampler, *given, width)
        pairs = zip(results, parts, strict=True)
        return start + size, *(tf.tensor_scatter_nd_update(whole, indices[:, None], rows) for whole, rows in pairs)

    results = tf.while_loop(lambda start, *_: start < sources, part, (0, *results), parallel_iterations=1)
    ids, log_probs, scores, links = results[1:]
    return SearchResults(ids, tf.maximum(log_probs, tf.float32.min), tf.maximum(scores, tf.float32.min), links)


def _search(decoder, sampler, encoded, lengths, limits, inputs, width):
    """Runs the loop of the search for one group of sources; the ids and links have `width` tokens."""
    rows, sources = sampler.rows_per_source, tf.size(limits)
    seeds, arguments = inputs.get("seed"), {name: value for name, value in inputs.items() if name != "seed"}
    state, memory = decoder.start(encoded)
    if rows > 1:
        state = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, rows, axis=0), state)

    if decoder.carries_attention:
        is_word = tf.sequence_mask(lengths - 1, tf.shape(state["attention"])[1])[:, None, :]
    if sampler.needs_attention:
        arguments["source_mask"] = tf.sequence_mask(lengths, tf.shape(state["attention"])[1])

    def step(t, words, tokens, links, log_probs, results, result_links, result_log_probs, search, state):
        next_log_probs, state = decoder.next_log_probs(tf.reshape(words, [-1]), state, memory)
        draws = _draws(seeds, t, rows) if sampler.needs_draws else None
        now = tf.one_hot(t, width, dtype=tf.int32)
        needed = {}
        if decoder.carries_attention:
            attention = tf.reshape(state["attention"], [sources, rows, -1])
            links += _links(attention, is_word)[:, :, None] * now
            needed = {"attention": tf.cast(attention, tf.float32)} if sampler.needs_attention else {}
        choice, search = sampler.step(next_log_probs, search, draws, **needed)
        result_log_probs = _take([result_log_probs, log_probs + choice.end_log_probs], choice.kept)
        results = _take([results, tokens + END * now], choice.kept)
        result_links = _take([result_links, links], choice.kept)
        if choice.parents is not None:
            tokens, links, log_probs = (
                tf.gather(tensor, choice.parents, batch_dims=1) for tensor in (tokens, links, log_probs)
            )
            parents = tf.reshape(choice.parents + rows * tf.range(sources)[:, None], [-1])
            state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents), state)
        tokens, log_probs = tokens + choice.words[:, :, None] * now, log_probs + choice.log_probs
        return t + 1, choice.words, tokens, links, log_probs, results, result_links, result_log_probs, search, state

    def goes_on(t, *variables):
        return (t < width) & tf.reduce_any(variables[-2]["searching"])

    shape, result_shape = tf.stack([sources, rows]), tf.stack([sources, sampler.results_per_source])
    tokens, results = (tf.zeros(tf.concat([each, [width]], 0), tf.int32) for each in (shape, result_shape))
    variables = (
        0,
        tf.zeros(shape, tf.int32),
        tokens,
        tokens,
        tf.zeros(shape),
        results,
        results,
        tf.fill(result_shape, -float("inf")),
        sampler.initial(limits, **arguments),
        state,
    )
    # The first shapes may fix the number of sources; the shapes of the loop must leave it open.
    shapes = tf.nest.map_structure(
        lambda tensor: tf.TensorShape([None] * len(tensor.shape[:1]) + tensor.shape[1:]),
        (tf.constant(0), *variables[1:]),
    )
    results = tf.while_loop(goes_on, step, variables, shape_invariants=shapes, parallel_iterations=1)
    ids, links, log_probs, search = results[5:9]
    return ids, log_probs, search.get("scores", log_probs), links


def _links(attention, is_word):
    """Finds the position s of the word with the largest weight; -1 - s if the end of the source has a larger weight."""
    weights = tf.where(is_word, attention, -1)
    link = tf.argmax(weights, axis=-1, output_type=tf.int32)
    return tf.where(tf.reduce_max(attention, axis=-1) > tf.reduce_max(weights, axis=-1), -1 - link, link)


def _take(parts, indices):
    return tf.gather(tf.concat(parts, axis=1), indices, batch_dims=1)


def _draws(seeds, t, rows):
    """Draws numbers from [0, 1) `(sources, rows)`, which depend only on the source's seed, the step and the row."""
    keys = tf.strings.join([tf.strings.as_string(seeds), tf.strings.as_string(t)], separator=" ")
    keys = tf.stack([keys] + [tf.strings.join([keys, str(row)], separator=" ") for row in range(1, rows)], axis=1)
    return tf.cast(tf.strings.to_hash_bucket_fast(keys, DRAWS), tf.float32) / DRAWS


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
            source_lengths: int32 tensor `(sources,)`: number of tokens of each source, with its end.

        Returns:
            string tensor `(sources, results, t)`.
        """
        words_of_source = source_lengths[:, None, None] - 1
        positions = tf.range(tf.shape(ids)[2]) - tf.gather(self._distances, ids)
        is_named = tf.gather(self._has_distance, ids) & (positions >= 0) & (positions < words_of_source)
        attended = attended_words(links) if self._carries_attention else -tf.ones_like(links)
        positions = tf.where(is_named, positions, attended)
        is_known_position = (positions >= 0) & (positions < words_of_source)
        whole, begin_with_marks = _whole_words(source_words)
        is_unknown = tf.gather(self._is_unknown, ids)
        replaced = tf.gather(self._translated(whole), tf.where(is_known_position, positions, 0), batch_dims=1)
        words = tf.where(is_unknown, tf.where(is_known_position, replaced, UNKNOWN_WORD), words)
        return _words_apart(words, is_unknown & is_known_position, begin_with_marks[:, None, None])

    def _translated(self, words):
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
    """Does the same as `text.tokenizer.words_apart` for subword units `(sources, results, t)`."""
    before_one = tf.pad(apart, [[0, 0], [0, 0], [0, 1]])[:, :, 1:]
    after_one = tf.pad(apart, [[0, 0], [0, 0], [1, 0]])[:, :, :-1]
    pieces = tf.where(before_one & ~apart, tf.strings.regex_replace(pieces, f"{GOES_ON}$", ""), pieces)
    marked = BEGINS + tf.strings.regex_replace(pieces, f"^{BEGINS}", "")
    return tf.where(begin_with_marks & (apart | after_one & (pieces != "")), marked, pieces)


def attended_words(links: tf.Tensor) -> tf.Tensor:
    """Converts `links`, see `SearchResults`, to the position of the source word that a target word attends to most."""
    return tf.where(links < 0, -1 - links, links)


def alignment_text(ids: tf.Tensor, links: tf.Tensor) -> tf.Tensor:
    """Writes the source word that each target word is linked to in Moses's format: "0-0 2-1".

    Args:
        ids: int32 tensor `(sources, results, t)`, closed by the end of sequence and padded.
        links: int32 tensor `(sources, results, t)`: the source position of each target word; negative ones are not
            written.

    Returns:
        string tensor `(sources, results)`: links `source-target`, counted from 0, in the order of the target.
    """
    is_word = (ids != END) & (ids != PADDING) & (links >= 0)
    position = tf.broadcast_to(tf.range(tf.shape(ids)[2]), tf.shape(ids))
    text = tf.strings.join([tf.strings.as_string(links), tf.strings.as_string(position)], separator="-")
    joined = tf.strings.reduce_join(tf.where(is_word, text + " ", ""), axis=-1)
    return tf.strings.strip(joined)
