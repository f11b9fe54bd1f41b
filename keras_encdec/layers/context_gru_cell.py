"""GRU cell conditioned on a context, the decoder's hidden unit."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.tensors import as_tensor
from keras_encdec.layers.gru_steps import ContextGRUStep
from keras_encdec.layers.initializers import LeftSingularVectors
from keras_encdec.layers.recurrent_cell import RecurrentCell


@keras.saving.register_keras_serializable(package="keras_encdec")
class ContextGRUCell(RecurrentCell):
    """Gated hidden unit that reads a context, the summary of the source, at every step.

        r = sigmoid(x W_r + h U_r + c C_r + b_r)
        z = sigmoid(x W_z + h U_z + c C_z + b_z)
        n = tanh(x W + b + r * (h U + c C))     the reset gate covers c C as well
        h = z * h + (1 - z) * n

    The context does not change with time. In `keras.layers.RNN` it travels as a second state: give
    `initial_state=[h_0, c]`. Over a whole sequence, `project_inputs` and `project_context` once and `run_recurrence`
    does the same with far fewer products.

    Args:
        units: int. Number of hidden units.
        context_units: int. Width of the context. Defaults to `units`.
        kernel_initializer: of W, W_r, W_z, C, C_r, C_z. Defaults to N(0, 0.01).
        recurrent_initializer: of U, U_r, U_z. Defaults to `LeftSingularVectors`.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of the state `(batch, units)` and the context `(batch, context_units)`.

    Returns:
        tuple: the new state `(batch, units)`, and the list of it and the context.

    Example:

    >>> from keras import ops
    >>> rnn = keras.layers.RNN(ContextGRUCell(4))
    >>> tuple(rnn(ops.ones((2, 3, 5)), initial_state=[ops.zeros((2, 4)), ops.ones((2, 4))]).shape)
    (2, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), appendix A.1.2
    """

    gates = 3
    gate_symbols = ("r", "z", "")
    step = ContextGRUStep()

    def __init__(
        self,
        units: int,
        context_units: int | None = None,
        kernel_initializer: Any = None,
        recurrent_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, kernel_initializer, recurrent_initializer or LeftSingularVectors(), **kwargs)
        self.context_units = context_units or units

    @property
    def state_size(self) -> list[int]:
        """Widths of the state and of the context, for `keras.layers.RNN`."""
        return [self.units, self.context_units]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        width = 3 * self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], width), initializer=self.kernel_initializer, name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, width), initializer=self.recurrent_initializer, name="recurrent_kernel"
        )
        self.context_kernel = self.add_weight(
            shape=(self.context_units, width), initializer=self.kernel_initializer, name="context_kernel"
        )
        self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")
        self.built = True

    def project_context(self, context: Any) -> Any:
        """c [C_r C_z C], `(batch, context_units)` to `(batch, 3 * units)`, once for a sequence."""
        return ops.matmul(context, self.context_kernel)

    def parameters(self, projected_context: Any) -> list[Any]:
        """The recurrent matrix and the context, for `step`. See `RecurrentCell.parameters`.

        Args:
            projected_context: float tensor `(batch, 3 * units)`, of `project_context`.
        """
        return [as_tensor(self.recurrent_kernel), projected_context]

    def call(self, inputs: Any, states: list[Any], training: bool | None = None) -> tuple[Any, list[Any]]:
        hidden, context = states
        parameters = self.parameters(self.project_context(context))
        hidden = self.step(self.project_inputs(inputs), {"hidden": hidden}, parameters)["hidden"]
        return hidden, [hidden, context]

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        """Zeros `(batch_size, units)` and `(batch_size, context_units)`."""
        return [ops.zeros((batch_size, size), dtype=self.compute_dtype) for size in self.state_size]

    def symbols(self) -> dict[str, tuple[Any, slice]]:
        return {**super().symbols(), **dict(self.columns("C", self.context_kernel))}

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "context_units": self.context_units}
