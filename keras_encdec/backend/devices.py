"""Which backend runs, and on what."""

import importlib.util


def name() -> str:
    """The backend that Keras runs on: "tensorflow", "jax" or "torch"."""
    import keras  # not before it is needed: declarations are read where nothing is computed

    return keras.backend.backend()


def on_cpu() -> bool:
    """Whether a CPU computes, not a GPU or TPU."""
    if name() == "jax":
        import jax

        return jax.default_backend() == "cpu"
    if name() == "tensorflow":
        import tensorflow as tf

        return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())
    from keras import ops

    return ops.zeros(()).device.type == "cpu"


def xla_on_cpu() -> bool:
    """Whether compiled calls are compiled by XLA, for a CPU."""
    return name() != "torch" and on_cpu()


def keep_tensorflow_off_the_gpu() -> None:
    """Leaves the GPU to the backend that runs, where that is not TensorFlow.

    Keras imports TensorFlow, where it is installed, for any backend's data; it would take the GPU's memory.
    """
    if name() != "tensorflow" and importlib.util.find_spec("tensorflow"):
        from keras_encdec.backend.quiet_imports import quietly

        with quietly():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")
