"""Tensors of the backend that runs, whatever a value is."""

from typing import Any

from keras import ops

from keras_encdec.backend.devices import name


def as_tensor(value: Any) -> Any:
    """The value as a tensor; a variable is read, once.

    `keras.ops.convert_to_tensor` hands on TensorFlow's variables as they are. Read at every step of a loop, a variable
    would keep a copy a step for its gradient.

    Args:
        value: tensor, variable or array.
    """
    tensor = ops.convert_to_tensor(value)
    if name() == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(tensor)
    return tensor
