"""Names the backend and the kind of its device, and sets how the process keeps its memory."""

import contextlib
import ctypes
import importlib.util


def name() -> str:
    """Returns the name of the backend that Keras runs on: "tensorflow", "jax" or "torch"."""
    import keras  # here, so that commands can read the declarations without Keras

    return keras.backend.backend()


def on_cpu() -> bool:
    """Returns whether the backend computes on a CPU, not on a GPU or TPU."""
    if name() == "jax":
        import jax

        return jax.default_backend() == "cpu"
    if name() == "tensorflow":
        import tensorflow as tf

        return all(device.device_type == "CPU" for device in tf.config.list_logical_devices())
    from keras import ops

    return ops.zeros(()).device.type == "cpu"


def xla_on_cpu() -> bool:
    """Returns whether XLA compiles the compiled calls for a CPU."""
    return name() != "torch" and on_cpu()


def keep_tensorflow_off_the_gpu() -> None:
    """Hides the GPU from TensorFlow when another backend runs.

    Keras imports TensorFlow, if it is installed, for the data pipelines of every backend. It would reserve the memory
    of the GPU.
    """
    if name() != "tensorflow" and importlib.util.find_spec("tensorflow"):
        from keras_encdec.backend.quiet_imports import quietly

        with quietly():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Makes glibc keep freed memory for the process instead of returning it to the system.

    By default glibc returns blocks of many megabytes at once, and the system clears every page when they are allocated
    again: up to a fifth of the time of a training step. Only the first of glibc's arenas can hold blocks of this size,
    so the number of arenas is 1. Under TensorFlow it is 2: its threads would wait for each other, and a small model
    trains a tenth faster with a second arena. Without glibc, nothing happens.
    """
    arenas = 2 if name() == "tensorflow" else 1
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for option, value in ((_ARENA_MAX, arenas), (_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, (1 << 31) - 1)):
            mallopt(option, value)
