"""Any translation model over phrases of mixed lengths, by its own encoder and step, as TensorFlow loops."""

import tensorflow as tf

from keras_encdec.export.packed import active, in_parts, loop
from keras_encdec.models import Decoder
from keras_encdec.models.log_probs import token_log_probs


def encode(model, ids, lengths):
    """What the decoder gets of each phrase.

    Args:
        model: TranslationModel.
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded.
        lengths: int32 tensor `(n,)`, the end of sequence counted.

    Returns:
        list of float tensors `(n, width)`.
    """

    def part(places, found):
        longest = tf.reduce_max(tf.gather(lengths, places))
        encoded = tf.nest.flatten(model.encoder(tf.gather(ids, places)[:, :longest]))
        pairs = zip(found, encoded, strict=True)
        return [tf.tensor_scatter_nd_update(all_, places[:, None], some) for all_, some in pairs]

    widths = [one.shape[-1] for one in tf.nest.flatten(model.encoder(tf.zeros((1, 1), tf.int32)))]
    return in_parts(part, lengths, [tf.zeros((tf.size(lengths), width)) for width in widths])


def score(model, ids, lengths, encoded, phrases):
    """log p of each token of phrases.

    Args:
        model: TranslationModel.
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded.
        lengths: int32 tensor `(n,)`, the end of sequence counted.
        encoded: list of float tensors `(m, width)`, of `encode`.
        phrases: integer tensor `(n,)`: what of `encoded` each phrase is a translation of.

    Returns:
        float32 tensor `(n, t)`, nats; 0 on padding.
    """
    previous = Decoder.previous_words(ids)

    def part(places, log_probs):
        source, rows_left = tf.gather(phrases, places), active(tf.gather(lengths, places))
        states, memory = model.decoder.start([tf.gather(one, source) for one in encoded])

        def one(t, states, log_probs):
            now = places[: rows_left[t]]
            at = tf.stack([now, tf.fill([rows_left[t]], t)], axis=1)
            states, kept = ([all_[: rows_left[t]] for all_ in of] for of in (states, memory))
            logits, states = model.decoder.step(tf.gather_nd(previous, at), states, kept)
            found = token_log_probs(logits[None], tf.gather_nd(ids, at)[None])[0]
            return t + 1, states, tf.tensor_scatter_nd_update(log_probs, at, found)

        widths = [tf.TensorShape([None, state.shape[-1]]) for state in states]
        shapes = (tf.TensorShape([]), widths, log_probs.shape)
        return loop(lambda t, *_: t < tf.size(rows_left), one, (0, states, log_probs), shapes)[2]

    return in_parts(part, lengths, tf.zeros(tf.shape(ids), tf.float32))
