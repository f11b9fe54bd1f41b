"""GRU cell with reset and update gates."""

from typing import Any

import keras

from keras_encdec.backend.tensors import as_tensor
from keras_encdec.layers.cells import register_cell
from keras_encdec.layers.gru_steps import GRUStep
from keras_encdec.layers.initializers import LeftSingularVectors
from keras_encdec.layers.recurrent_cell import RecurrentCell


@register_cell("gru")
@keras.saving.register_keras_serializable(package="keras_encdec")
class GRUCell(RecurrentCell):
    """Gated hidden unit of the RNN Encoder-Decoder, one step.

        r = sigmoid(x W_r + h U_r + b_r)
        z = sigmoid(x W_z + h U_z + b_z)
        n = tanh(x W + b + (r * h) U)      reset_after=False: the body of the paper
        n = tanh(x W + b + r * (h U))      reset_after=True: its supplement
        h = z * h + (1 - z) * n

    The update gate z keeps the OLD state. Where a text writes z and 1 - z the other way round, it is
    the same model with the sign of W_z, U_z and b_z turned. The two places of the reset gate are two
    different models. Unlike `keras.layers.GRUCell` with `reset_after=True`, there is no bias inside
    `r * (h U)`.

    Runs in `keras.layers.RNN`; `GRU` is the layer that projects the inputs of all steps at once.

    Args:
        units: int. Number of hidden units.
        reset_after: bool. Whether the reset gate multiplies after the matrix. Defaults to `False`.
        kernel_initializer: of W, W_r, W_z. Defaults to N(0, 0.01).
        recurrent_initializer: of U, U_r, U_z. Defaults to `LeftSingularVectors`.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of one tensor `(batch, units)`.

    Returns:
        tuple: the new state `(batch, units)`, and the list of it.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(GRUCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), equations 5 to 8 and appendix A
    """

    gates = 3
    gate_symbols = ("r", "z", "")

    def __init__(
        self,
        units: int,
        reset_after: bool = False,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, kernel_initializer, recurrent_initializer or LeftSingularVectors(), **kwargs)
        self.reset_after = reset_after
        self.step = GRUStep(reset_after)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        units = self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], 3 * units), initializer=self.kernel_initializer, name="kernel"
        )
        # Two variables, as the candidate needs r * h before its product: slicing one variable at
        # every step would copy it at every step.
        self.gate_recurrent_kernel = self.add_weight(
            shape=(units, 2 * units), initializer=self.recurrent_initializer, name="gate_recurrent_kernel"
        )
        self.candidate_recurrent_kernel = self.add_weight(
            shape=(units, units), initializer=self.recurrent_initializer, name="candidate_recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(3 * units,), initializer="zeros", name="bias")
        self.built = True

    def parameters(self) -> list[Any]:
        """The recurrent matrices, for `step`. See `RecurrentCell.parameters`."""
        return [as_tensor(w) for w in (self.gate_recurrent_kernel, self.candidate_recurrent_kernel)]

    def symbols(self) -> dict[str, tuple[Any, slice]]:
        recurrent = dict(list(self.columns("U", self.gate_recurrent_kernel))[:2])
        recurrent["U"] = self.candidate_recurrent_kernel, slice(None)
        return {**dict(self.columns("W", self.kernel)), **recurrent, **dict(self.columns("b", self.bias))}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "reset_after": self.reset_after}
