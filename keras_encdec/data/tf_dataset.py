"""Batches as a tf.data pipeline."""


def tf_dataset(make_batches, prefetch=8):
    """Batches read from disk and padded beside the training itself.

    Args:
        make_batches: callable without arguments to an iterable of dicts "source" and "target"
            `(batch, width)`, int32, of any widths; called anew for every pass.
        prefetch: int. Batches held ready. Defaults to `8`.

    Returns:
        `tf.data.Dataset` of these dicts.
    """
    import tensorflow as tf

    # The widths are declared unknown: Keras, left to look at the first batches, takes theirs for all.
    rows = tf.TensorSpec((None, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(make_batches, output_signature={"source": rows, "target": rows})
    return dataset.prefetch(prefetch)
