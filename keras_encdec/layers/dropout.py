"""Dropout that is fast on a CPU."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.operations import dropout
from keras_encdec.backend.types import Tensor

STATE = "seed_generator_state"


@keras.saving.register_keras_serializable(package="keras_encdec")
class Dropout(keras.layers.Dropout):
    """Keras's dropout, with random numbers that a CPU draws faster.

        y_i = x_i / (1 - rate) with probability 1 - rate, else 0

    The layer saves the state of its generator, so that a resumed training run draws the same numbers. Under PyTorch,
    Keras draws from PyTorch's own generator unless the layer has a seed; the checkpoints of a training run contain the
    state of that generator.

    Under TensorFlow, the layer draws with Philox. In a step that XLA compiles for a CPU, TensorFlow's default
    generator, which Keras's layer uses, is about a hundred times slower: a model of 512 units takes twice as long to
    train. Under PyTorch on a CPU, a layer without a seed draws 16 bits for each input, which rounds the rate to a
    multiple of 2^-16. In all other cases, the layer computes what Keras's own does.

    Args:
        rate: float from 0 to 1. Share of the inputs that are set to zero in training.

    Call arguments:
        inputs: float tensor of any shape. A mask passes through unchanged.
        training: bool. Whether to set inputs to zero.

    Returns:
        float tensor, shaped like the inputs.

    Raises:
        ValueError: for a rate outside this range.

    Example:

    >>> float(ops.max(Dropout(0.5)(ops.ones((4, 8)), training=True))) in (0.0, 2.0)
    True

    Reference:
        - Srivastava et al., 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting"
        - Salmon et al., 2011, "Parallel Random Numbers: As Easy as 1, 2, 3": Philox
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate in (0, 1) or self.noise_shape is not None:
            return super().call(inputs, training=training)
        return dropout(inputs, self.rate, self.seed_generator)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        if self.rate:
            store[STATE] = ops.convert_to_numpy(self.seed_generator.state)

    def load_own_variables(self, store: Any) -> None:
        if self.rate and STATE in store.keys():  # noqa: SIM118, Keras's store is not a mapping
            self.seed_generator.state.assign(store[STATE])
