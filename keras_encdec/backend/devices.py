"""Names the backend and the kind of its device."""

import importlib.util

from keras_encdec.backend.startup import quietly


def name() -> str:
    """Returns the name of the backend that Keras runs on: "tensorflow", "jax" or "torch"."""
    import keras  # here, so that commands can read the declarations without Keras

    return keras.backend.backend()


def device_names() -> list[str]:
    """Returns the names of the devices that the backend can compute on, such as "CPU" or "GPU NVIDIA H100"."""
    if name() == "jax":
        import jax

        kinds = [(device.platform.upper(), device.device_kind) for device in jax.devices()]
        return [platform if kind == "cpu" else f"{platform} {kind}" for platform, kind in kinds]
    if name() == "tensorflow":
        import tensorflow as tf

        described = tf.config.experimental.get_device_details
        devices = [
            (one.device_type, described(one).get("device_name", "")) for one in tf.config.list_physical_devices()
        ]
        return [f"{kind} {model}".strip() for kind, model in devices]
    import torch

    graphics = [f"GPU {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count())]
    return ["CPU", *graphics, *(["MPS"] if torch.backends.mps.is_available() else [])]


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
        with quietly():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")
