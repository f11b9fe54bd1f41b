"""The search of a sampler inside an exported graph, as a TensorFlow loop around the sampler's step."""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding.generator import LENGTH_FACTOR, SHORTEST_LIMIT
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.text.vocabulary import END

# Most target sequences that are extended together, unless one source needs more.
MOST_ROWS = 256
# Random numbers are multiples of 1 / DRAWS, which float32 represents exactly.
DRAWS = 1 << 24


def target_limits(lengths: tf.Tensor) -> tf.Tensor:
    """Most tokens of a target for each source, the end of sequence included, as in `decoding`.

    Args:
        lengths: int32 tensor `(sources,)`, the tokens of each source, its end included.

    Returns:
        int32 tensor `(sources,)`.
    """
    words = tf.cast(lengths - 1, tf.float32)
    limits = tf.maximum(SHORTEST_LIMIT, tf.cast(tf.math.ceil(LENGTH_FACTOR * words), tf.int32)) + 1
    return tf.where(lengths > 1, limits, 1)


class SearchResults(NamedTuple):
    """The results of a search in a graph. Where a source has fewer hypotheses, the ids of the missing ones are 0.

    Attributes:
        ids: int32 tensor `(sources, results, t)`, closed by the end of sequence and padded with 0.
        log_probs: float32 tensor `(sources, results)`: their ln p in nats; the least float32 where there is no
            hypothesis, as JSON has no infinity.
        scores: float32 tensor `(sources, results)`: the scores that rank them; the least float32 for a missing one.
        links: int32 tensor `(sources, results, t)`: the position s of the source word that each token attends to most;
            -1 - s where it attends more to the end of the source; zero for a model without attention.
    """

    ids: tf.Tensor
    log_probs: tf.Tensor
    scores: tf.Tensor
    links: tf.Tensor


def search_in_graph(
    decoder: Any,
    encoded: dict[str, tf.Tensor],
    lengths: tf.Tensor,
    limits: tf.Tensor,
    sampler: Sampler,
    inputs: dict[str, tf.Tensor],
) -> SearchResults:
    """Generates targets of many sources, the same as `keras_encdec.decoding.Generator` with the same sampler.

    Args:
        decoder: Decoder.
        encoded: dict of tensors, of the encoder, one row a source.
        lengths: int32 tensor `(sources,)`: tokens of each source, its end included.
        limits: int32 tensor `(sources,)`, of `target_limits`.
        sampler: Sampler.
        inputs: dict of tensors `(sources,)`, see `RegisteredSampler.inputs`. A sampler that draws needs "seed", int64:
            equal seeds give equal draws, whatever the batch. The others are arguments of the sampler's `initial`.

    Raises:
        ConfigurationError: a ValueError, when the sampler needs the attention of a decoder that has none.
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
    # The number of sources is unknown in all shapes of the loop, even where a first shape is more specific.
    shapes = tf.nest.map_structure(
        lambda tensor: tf.TensorShape([None] * len(tensor.shape[:1]) + tensor.shape[1:]),
        (tf.constant(0), *variables[1:]),
    )
    results = tf.while_loop(goes_on, step, variables, shape_invariants=shapes, parallel_iterations=1)
    ids, links, log_probs, search = results[5:9]
    return ids, log_probs, search.get("scores", log_probs), links


def _links(attention, is_word):
    """The position s of the word with the largest weight, -1 - s where the end of the source has a larger one."""
    weights = tf.where(is_word, attention, -1)
    link = tf.argmax(weights, axis=-1, output_type=tf.int32)
    return tf.where(tf.reduce_max(attention, axis=-1) > tf.reduce_max(weights, axis=-1), -1 - link, link)


def _take(parts, indices):
    return tf.gather(tf.concat(parts, axis=1), indices, batch_dims=1)


def _draws(seeds, t, rows):
    """Random numbers from [0, 1) `(sources, rows)`, which depend on the source's seed, the step and the row alone."""
    keys = tf.strings.join([tf.strings.as_string(seeds), tf.strings.as_string(t)], separator=" ")
    keys = tf.stack([keys] + [tf.strings.join([keys, str(row)], separator=" ") for row in range(1, rows)], axis=1)
    return tf.cast(tf.strings.to_hash_bucket_fast(keys, DRAWS), tf.float32) / DRAWS
