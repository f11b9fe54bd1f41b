"""The stream of training batches as a tf.data pipeline."""


def tf_dataset(batches, first_update=0, prefetch=8):
    """Training batches, read from disk and padded beside the training itself.

    Args:
        batches: Batches.
        first_update: int. Update to start from. Defaults to `0`.
        prefetch: int. Batches held ready. Defaults to `8`.

    Returns:
        `tf.data.Dataset`, endless, of dicts "source" and "target" `(batch_size, width)`, int32.
    """
    import tensorflow as tf

    row = tf.TensorSpec((batches.batch_size, None), tf.int32)
    dataset = tf.data.Dataset.from_generator(
        lambda: batches.stream(first_update), output_signature={"source": row, "target": row}
    )
    return dataset.prefetch(prefetch)
