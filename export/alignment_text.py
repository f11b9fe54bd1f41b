"""Word alignments as text, in a graph."""

import tensorflow as tf

from keras_encdec.text.vocabulary import END, PADDING


def alignment_text(ids: tf.Tensor, links: tf.Tensor) -> tf.Tensor:
    """Which source word each target word is linked to, as Moses writes it: "0-0 2-1".

    Args:
        ids: int32 tensor `(sources, results, t)`, closed by the end of sequence and padded.
        links: int32 tensor `(sources, results, t)`: a source position for each; negative ones are left out.

    Returns:
        string tensor `(sources, results)`: links `source-target`, counted from 0, in the order of the target.
    """
    is_word = (ids != END) & (ids != PADDING) & (links >= 0)
    position = tf.broadcast_to(tf.range(tf.shape(ids)[2]), tf.shape(ids))
    text = tf.strings.join([tf.strings.as_string(links), tf.strings.as_string(position)], separator="-")
    joined = tf.strings.reduce_join(tf.where(is_word, text + " ", ""), axis=-1)
    return tf.strings.strip(joined)
