"""RNNEncoderDecoder over phrases of mixed lengths with nothing computed for padding, as TensorFlow loops.

Phrases are taken in the order of their lengths, the longest first, so that those which are not over at
a step are the first rows of the batch; each step computes these alone. Memory does not grow with the
batch but for the results: so many phrases are in work at a time, and so many tokens' logits.
"""

import tensorflow as tf

from keras_encdec.models import Decoder
from keras_encdec.models.log_probs import token_log_probs

PHRASES = 256
TOKENS = 512


def encode(encoder, matrices, ids, lengths):
    """The summary of each phrase.

    Args:
        encoder: Encoder.
        matrices: list of tensors or variables: `encoder.gru.cell.parameters()`.
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded.
        lengths: int32 tensor `(n,)`, the end of sequence counted.

    Returns:
        float tensor `(n, units)`.
    """
    cell = encoder.gru.cell

    def part(places, summaries):
        some, rows_left = tf.gather(ids, places), active(tf.gather(lengths, places))
        initial = tf.zeros((tf.size(places), encoder.units), encoder.compute_dtype)

        def project(step, rows):
            return cell.project_inputs(encoder.embedding(some[:rows, step]))

        state, _ = _recurrence(cell.step, lambda rows: matrices, project, initial, rows_left)
        return tf.tensor_scatter_nd_update(summaries, places[:, None], encoder.summary(state))

    empty = tf.zeros((tf.size(lengths), encoder.units), encoder.compute_dtype)
    return in_parts(part, lengths, empty)


def score(decoder, ids, lengths, summaries, phrases):
    """log p of each token of phrases.

    Args:
        decoder: Decoder.
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded.
        lengths: int32 tensor `(n,)`, the end of sequence counted.
        summaries: float tensor `(m, units)`, of `encode`.
        phrases: integer tensor `(n,)`: which summary each phrase is a translation of.

    Returns:
        float32 tensor `(n, t)`, nats; 0 on padding.
    """
    cell, readout, units = decoder.cell, decoder.readout, decoder.units
    # Of the source alone: once for all of its translations.
    initial = decoder.initial_state(summaries)
    gates, bias = cell.project_context(summaries), readout.project_context(summaries)
    previous = Decoder.previous_words(ids)

    def part(places, log_probs):
        source, rows_left = tf.gather(phrases, places), active(tf.gather(lengths, places))
        words, context = tf.gather(previous, places), tf.gather(gates, source)

        def project(step, rows):
            return cell.project_inputs(decoder.embedding(words[:rows, step]))

        def parameters(rows):
            return cell.parameters(context[:rows])

        _, states = _recurrence(cell.step, parameters, project, tf.gather(initial, source), rows_left, units)
        # Where the states belong: step by step, at each the first rows.
        step, row = tf.unstack(tf.cast(tf.where(tf.sequence_mask(rows_left)), tf.int32), axis=1)
        where = tf.stack([tf.gather(places, row), step], axis=1)
        word, token, source = tf.gather_nd(previous, where), tf.gather_nd(ids, where), tf.gather(source, row)

        def some(start, log_probs):
            now = slice(start, start + TOKENS)
            reduced = readout.reduce(states[now], decoder.embedding(word[now]), tf.gather(bias, source[now]))
            found = token_log_probs(readout.logits(reduced)[None], token[None, now])[0]
            return start + TOKENS, tf.tensor_scatter_nd_update(log_probs, where[now], found)

        return loop(lambda start, _: start < tf.size(row), some, (0, log_probs))[1]

    return in_parts(part, lengths, tf.zeros(tf.shape(ids), tf.float32))


def in_parts(part, lengths, results):
    """Calls `part(places, results)` for some phrases at a time, those of like length together."""
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def some(start, results):
        return start + PHRASES, part(order[start : start + PHRASES], results)

    return loop(lambda start, _: start < tf.size(lengths), some, (0, results))[1]


def active(lengths):
    """How many of the phrases, sorted by length, go on to each step: int32 `(t,)`."""
    return tf.reduce_sum(tf.cast(tf.sequence_mask(lengths), tf.int32), axis=0)


def _recurrence(step, parameters, project, state, rows_left, units=None):
    """The last state of each row and, with `units`, the states of all steps, packed."""
    steps = tf.size(rows_left)
    packed = tf.TensorArray(state.dtype, steps if units else 0, infer_shape=False, element_shape=(None, units))

    def one(t, state, packed):
        rows = rows_left[t]
        new, _ = step.forward(project(t, rows), state[:rows], parameters(rows))
        packed = packed.write(t, new) if units else packed
        return t + 1, tf.concat([new, state[rows:]], axis=0), packed

    _, state, packed = loop(lambda t, *_: t < steps, one, (0, state, packed))
    return state, packed.concat() if units else None


def loop(goes_on, body, values, shapes=None):
    """`tf.while_loop`, one turn after another."""
    # One turn at a time: side by side they would take the memory that the parts are there to save.
    return tf.while_loop(goes_on, body, values, shapes, parallel_iterations=1)
