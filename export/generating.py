"""Beam search and sampling inside an exported graph, as TensorFlow loops."""

import tensorflow as tf

from keras_encdec.decoding.barred_words import barred
from keras_encdec.decoding.generator import LENGTH_FACTOR, SHORTEST_LIMIT
from keras_encdec.decoding.random_sampler import drawn, tempered
from keras_encdec.models.log_probs import next_log_probs
from keras_encdec.text import END, PADDING

# Target sequences that are decoded together.
ROWS = 256


def limits(lengths):
    """Tokens of a target at most, from those of its source, ends counted: int32 `(n,)` to int32 `(n,)`."""
    words = tf.cast(lengths - 1, tf.float32)
    most = tf.maximum(SHORTEST_LIMIT, tf.cast(tf.math.ceil(LENGTH_FACTOR * words), tf.int32)) + 1
    return tf.where(lengths > 1, most, 1)


def beam_search(decoder, summaries, most, num_beams):
    """The best targets, as `keras_encdec.decoding.BeamSampler` finds them, ranked by log p.

    Args:
        decoder: Decoder.
        summaries: float tensor `(n, units)`, or list of such: what the encoder gave.
        most: int32 tensor `(n,)`, of `limits`.
        num_beams: int.

    Returns:
        tuple: int32 ids `(n, num_beams, t)`, closed by the end of sequence and padded, and their log p in
        nats, float32 `(n, num_beams)`; -inf where there are fewer targets.
    """
    width = tf.reduce_max(tf.concat([[1], most], 0))

    def part(places):
        return _beams(decoder, _at(summaries, places), tf.gather(most, places), num_beams, width)

    shape = tf.stack([tf.size(most), num_beams])
    empty = tf.zeros(tf.concat([shape, [width]], 0), tf.int32), tf.zeros(shape)
    return _in_parts(part, tf.size(most), max(1, ROWS // num_beams), empty)


def sample(decoder, summaries, most, seeds, temperatures):
    """A target drawn for each source; equal seeds draw alike, whatever the batch.

    Args:
        decoder, summaries, most: see `beam_search`.
        seeds: int64 tensor `(n,)`.
        temperatures: float tensor `(n,)`, positive.

    Returns:
        tuple: int32 ids `(n, t)` and log p in nats, float32 `(n,)`.
    """
    width, others = tf.reduce_max(tf.concat([[1], most], 0)), (most, seeds, temperatures)

    def part(places):
        return _sampled(decoder, _at(summaries, places), *(tf.gather(of, places) for of in others), width)

    empty = tf.zeros(tf.stack([tf.size(most), width]), tf.int32), tf.zeros(tf.shape(most))
    return _in_parts(part, tf.size(most), ROWS, empty)


def _beams(decoder, summaries, most, num_beams, width):
    number, vocabulary = tf.size(most), decoder.vocabulary_size
    best = min(num_beams, vocabulary)
    states, memory = ([tf.repeat(one, num_beams, axis=0) for one in of] for of in decoder.start(summaries))
    first = tf.range(number * num_beams) // num_beams * num_beams

    def step(t, totals, tokens, ended_totals, ended_tokens, states):
        previous = tf.reshape(tf.gather(tokens, tf.maximum(t - 1, 0), axis=2), [-1])
        logits, states = decoder.step(previous, states, memory)
        log_probs = next_log_probs(logits)
        values, words = tf.math.top_k(barred(log_probs, [PADDING, END]), best)
        continued = totals[:, :, None] + tf.reshape(values, [number, num_beams, best])
        continued = tf.where((t + 1 < most)[:, None, None], continued, -float("inf"))
        ended = totals + tf.reshape(log_probs[:, END], [number, num_beams])
        totals, order = tf.math.top_k(tf.reshape(continued, [number, num_beams * best]), num_beams)
        # What ends is kept if it is among the best of all continuations.
        least = tf.math.top_k(tf.concat([totals, ended], axis=1), num_beams)[0][:, -1:]
        ended = tf.where(ended >= least, ended, -float("inf"))
        now = tf.one_hot(t, width, dtype=tf.int32)
        ended_totals, kept = tf.math.top_k(tf.concat([ended_totals, ended], axis=1), num_beams)
        ended_tokens = tf.gather(tf.concat([ended_tokens, tokens + END * now], axis=1), kept, batch_dims=1)
        parents = order // best
        chosen = tf.gather(tf.reshape(words, [number, num_beams * best]), order, batch_dims=1)
        tokens = tf.gather(tokens, parents, batch_dims=1) + chosen[:, :, None] * now
        rows = first + tf.reshape(parents, [-1])
        return t + 1, totals, tokens, ended_totals, ended_tokens, [tf.gather(state, rows) for state in states]

    def goes_on(t, totals, tokens, ended_totals, *_):
        # Until the best that goes on, which can only lose, is no better than the last that ended.
        open_ = tf.reduce_max(totals, axis=1) > ended_totals[:, -1]
        return (t < width) & tf.reduce_any(open_)

    totals = tf.tile(tf.where(tf.range(num_beams) == 0, 0.0, -float("inf"))[None], [number, 1])
    tokens = tf.zeros(tf.stack([number, num_beams, width]), tf.int32)
    never = tf.fill(tf.shape(totals), -float("inf"))
    results = tf.while_loop(goes_on, step, (0, totals, tokens, never, tokens, states), parallel_iterations=1)
    return results[4], results[3]


def _sampled(decoder, summaries, most, seeds, temperatures, width):
    states, memory = decoder.start(summaries)
    seeds = tf.strings.as_string(seeds)

    def step(t, previous, going, tokens, totals, states):
        logits, states = decoder.step(previous, states, memory)
        log_probs = next_log_probs(logits)
        keys = tf.strings.join([seeds, tf.strings.as_string(t)], separator=" ")
        buckets = 1 << 24  # as many as float32 tells apart
        draws = tf.cast(tf.strings.to_hash_bucket_fast(keys, buckets), tf.float32) / buckets
        words = drawn(tempered(barred(log_probs, [PADDING]), temperatures[:, None]), draws)
        words = tf.where(t + 1 >= most, END, words)
        totals += tf.where(going, tf.gather(log_probs, words, batch_dims=1), 0.0)
        words = tf.where(going, words, PADDING)
        tokens += words[:, None] * tf.one_hot(t, width, dtype=tf.int32)
        return t + 1, words, going & (words != END), tokens, totals, states

    rows = tf.shape(most)
    values = (0, tf.zeros(rows, tf.int32), tf.ones(rows, tf.bool))
    values += (tf.zeros(tf.stack([rows[0], width]), tf.int32), tf.zeros(rows), states)
    results = tf.while_loop(lambda t, _, going, *__: tf.reduce_any(going), step, values, parallel_iterations=1)
    return results[3], results[4]


def _at(summaries, places):
    return tf.nest.map_structure(lambda one: tf.gather(one, places), summaries)


def _in_parts(part, number, size, results):
    def some(start, *results):
        places = tf.range(start, tf.minimum(start + size, number))
        found = zip(results, part(places), strict=True)
        return start + size, *(tf.tensor_scatter_nd_update(all_, places[:, None], some) for all_, some in found)

    return tf.while_loop(lambda start, *_: start < number, some, (0, *results), parallel_iterations=1)[1:]
