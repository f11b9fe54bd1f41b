"""Batches as a tf.data pipeline."""

from collections.abc import Callable, Iterable
from typing import Any


def tf_dataset(make_batches: Callable[[], Iterable[dict[str, Any]]], prefetch: int = 8) -> Any:
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
    return without_autotuning(dataset.prefetch(prefetch))


def without_autotuning(dataset: Any) -> Any:
    """The dataset with nothing for TensorFlow to tune, and so without the thread that tunes.

    An iterator that Python's garbage collector drops waits for that thread while it holds Python's lock, and can
    wait for ever.

    Args:
        dataset: `tf.data.Dataset`.
    """
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)
