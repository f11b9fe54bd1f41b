"""The search of a sampler inside an exported graph, as a TensorFlow loop around the sampler's step."""

from typing import Any

import tensorflow as tf

from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.target_limits import LENGTH_FACTOR, SHORTEST_LIMIT
from keras_encdec.text.vocabulary import END

# Target sequences that grow together, at most, unless one source needs more.
MOST_ROWS = 256
# Numbers that are drawn from: as many as float32 tells apart.
DRAWS = 1 << 24


def target_limits(lengths: tf.Tensor) -> tf.Tensor:
    """Tokens of a target at most, from those of its source, ends counted: see `decoding.target_limits.target_limit`.

    Args:
        lengths: int32 tensor `(sources,)`.

    Returns:
        int32 tensor `(sources,)`.
    """
    words = tf.cast(lengths - 1, tf.float32)
    limits = tf.maximum(SHORTEST_LIMIT, tf.cast(tf.math.ceil(LENGTH_FACTOR * words), tf.int32)) + 1
    return tf.where(lengths > 1, limits, 1)


def search_in_graph(
    decoder: Any, encoded: dict[str, tf.Tensor], limits: tf.Tensor, sampler: Sampler, inputs: dict[str, tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Targets of many sources, as `keras_encdec.decoding.Generator` finds them with the same sampler.

    Args:
        decoder: Decoder.
        encoded: dict of tensors, of the encoder, one row a source.
        limits: int32 tensor `(sources,)`, of `target_limits`.
        sampler: Sampler.
        inputs: dict of tensors `(sources,)`, see `RegisteredSampler.inputs`: "seed", int64, of a sampler that draws, by
            which equal seeds draw alike whatever the batch; others are arguments of the sampler's `initial`.

    Returns:
        tuple: int32 ids `(sources, results, t)`, closed by the end of sequence and padded with 0; their ln p in
        nats, float32 `(sources, results)`; and what they are ranked by, float32 `(sources, results)`. Where there are
        fewer hypotheses, the ids are 0 and the others the least float32, as JSON has no infinity.
    """
    sources, width = tf.size(limits), tf.reduce_max(tf.concat([[1], limits], 0))
    size = max(1, MOST_ROWS // sampler.rows_per_source)
    shape = tf.stack([sources, sampler.results_per_source])
    results = tf.zeros(tf.concat([shape, [width]], 0), tf.int32), tf.zeros(shape), tf.zeros(shape)

    def part(start, *results):
        indices = tf.range(start, tf.minimum(start + size, sources))
        given = tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices), (encoded, limits, inputs))
        parts = _search(decoder, sampler, *given, width)
        pairs = zip(results, parts, strict=True)
        return start + size, *(tf.tensor_scatter_nd_update(whole, indices[:, None], rows) for whole, rows in pairs)

    results = tf.while_loop(lambda start, *_: start < sources, part, (0, *results), parallel_iterations=1)
    return results[1], *(tf.maximum(values, tf.float32.min) for values in results[2:])


def _search(decoder, sampler, encoded, limits, inputs, width):
    rows, sources = sampler.rows_per_source, tf.size(limits)
    seeds, arguments = inputs.get("seed"), {name: value for name, value in inputs.items() if name != "seed"}
    state, memory = decoder.start(encoded)
    if rows > 1:
        state = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, rows, axis=0), state)

    def step(t, words, tokens, log_probs, results, result_log_probs, search, state):
        next_log_probs, state = decoder.next_log_probs(tf.reshape(words, [-1]), state, memory)
        draws = _draws(seeds, t, rows) if sampler.needs_draws else None
        choice, search = sampler.step(next_log_probs, search, draws)
        now = tf.one_hot(t, width, dtype=tf.int32)
        result_log_probs = _take([result_log_probs, log_probs + choice.end_log_probs], choice.kept)
        results = _take([results, tokens + END * now], choice.kept)
        if choice.parents is not None:
            tokens, log_probs = (tf.gather(tensor, choice.parents, batch_dims=1) for tensor in (tokens, log_probs))
            parents = tf.reshape(choice.parents + rows * tf.range(sources)[:, None], [-1])
            state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents), state)
        tokens, log_probs = tokens + choice.words[:, :, None] * now, log_probs + choice.log_probs
        return t + 1, choice.words, tokens, log_probs, results, result_log_probs, search, state

    def goes_on(t, *variables):
        return (t < width) & tf.reduce_any(variables[-2]["searching"])

    shape, result_shape = tf.stack([sources, rows]), tf.stack([sources, sampler.results_per_source])
    variables = (
        0,
        tf.zeros(shape, tf.int32),
        tf.zeros(tf.concat([shape, [width]], 0), tf.int32),
        tf.zeros(shape),
        tf.zeros(tf.concat([result_shape, [width]], 0), tf.int32),
        tf.fill(result_shape, -float("inf")),
        sampler.initial(limits, **arguments),
        state,
    )
    # Sources are as many as there are, whatever is known of a tensor's shape.
    shapes = tf.nest.map_structure(lambda tensor: tf.TensorShape([None] * len(tensor.shape[:1]) + tensor.shape[1:]),
                                   (tf.constant(0), *variables[1:]))  # fmt: skip
    results = tf.while_loop(goes_on, step, variables, shape_invariants=shapes, parallel_iterations=1)
    ids, log_probs, search = results[4], results[5], results[6]
    return ids, log_probs, search.get("scores", log_probs)


def _take(parts, indices):
    return tf.gather(tf.concat(parts, axis=1), indices, batch_dims=1)


def _draws(seeds, t, rows):
    """Random numbers from [0, 1) for each row, `(sources, rows)`, which depend on its source's seed and the step."""
    keys = tf.strings.join([tf.strings.as_string(seeds), tf.strings.as_string(t)], separator=" ")
    keys = tf.stack([keys] + [tf.strings.join([keys, str(row)], separator=" ") for row in range(1, rows)], axis=1)
    return tf.cast(tf.strings.to_hash_bucket_fast(keys, DRAWS), tf.float32) / DRAWS
