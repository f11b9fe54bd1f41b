"""Random numbers that are quick to draw."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.devices import name
from keras_encdec.backend.types import Tensor


def dropout(inputs: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Zeroes a share of the inputs, drawn anew at each call, and scales the others by 1 / (1 - rate).

    As `keras.random.dropout`, but for TensorFlow's generator: in a step that XLA compiles for a CPU, the one that
    TensorFlow chooses on its own is a hundred times slower than Philox, and a training of 512 units twice as slow.

    Args:
        inputs: float tensor.
        rate: float above 0 and below 1.
        seed: `keras.random.SeedGenerator`.

    Returns:
        float tensor, shaped like the inputs.
    """
    if name() != "tensorflow":
        return keras.random.dropout(inputs, rate, seed=seed)
    import tensorflow as tf

    drawn = tf.random.stateless_uniform(ops.shape(inputs), seed.next(), alg="philox")
    return ops.where(drawn >= rate, inputs / (1 - rate), 0)


def generator_state() -> dict[str, np.ndarray]:
    """The state of the generator that dropout without a seed is drawn from, where it is the process's: PyTorch.

    Under the other backends `keras_encdec.layers.Dropout` saves its own.

    Returns:
        dict of uint8 arrays: "cpu", and "cuda" where there is a GPU. Empty under the other backends.
    """
    if name() != "torch":
        return {}
    import torch

    states = {"cpu": torch.get_rng_state().numpy()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().numpy()
    return states


def set_generator_state(states: Mapping[str, np.ndarray]) -> None:
    """Puts back what `generator_state` gave, of the devices that are here."""
    if name() != "torch":
        return
    import torch

    if "cpu" in states:
        torch.set_rng_state(torch.from_numpy(states["cpu"]))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(states["cuda"]))
