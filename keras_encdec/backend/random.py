"""Dropout, and the state of its random numbers."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.devices import name
from keras_encdec.backend.replicas import Replicas
from keras_encdec.backend.types import Tensor


def dropout(inputs: Tensor, rate: float, seed: keras.random.SeedGenerator) -> Tensor:
    """Sets a random share of the inputs to zero, and scales the others by 1 / (1 - rate).

    It is `keras.random.dropout`, except that TensorFlow draws with Philox. In a step that XLA compiles for a CPU,
    TensorFlow's default generator is a hundred times slower: a model of 512 units takes twice as long to train.

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


def generator_state(devices: Replicas) -> dict[str, np.ndarray]:
    """Returns the states of PyTorch's own generators, which dropout without a seed draws from.

    Under the other backends `keras_encdec.layers.Dropout` saves the state of its generator itself.

    Args:
        devices: Replicas of the training. All processes must call the function.

    Returns:
        dict of uint8 arrays: "cpu", and "cuda" if there is a GPU; those of the second process are "cpu.1" and "cuda.1".
        Empty under the other backends.
    """
    if name() != "torch":
        return {}
    import torch

    states = {"cpu": torch.get_rng_state().numpy()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().numpy()
    return {
        _of_process(kind, process): state
        for kind, here in states.items()
        for process, state in enumerate(devices.gather(here))
    }


def set_generator_state(states: Mapping[str, np.ndarray], devices: Replicas) -> None:
    """Restores the states that `generator_state` returned, for this process and the devices of this machine."""
    if name() != "torch":
        return
    import torch

    cpu, cuda = (_of_process(kind, devices.process) for kind in ("cpu", "cuda"))
    if cpu in states:
        torch.set_rng_state(torch.from_numpy(states[cpu]))
    if cuda in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(states[cuda]))


def _of_process(kind: str, process: int) -> str:
    return f"{kind}.{process}" if process else kind
