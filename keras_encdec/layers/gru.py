"""GRU layer over a sequence."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.types import Tensor
from keras_encdec.layers.gru_cell import GRUCell
from keras_encdec.layers.recurrence import run_recurrence


@keras.saving.register_keras_serializable(package="keras_encdec")
class GRU(keras.layers.Layer):
    """`GRUCell` run along a sequence, from h_0 = 0.

    The inputs of all time steps are projected in one matrix product; only the recurrent products are computed step by
    step. A masked step keeps the previous state, so that padding does not change the result, wherever it is.
    `keras.layers.Bidirectional` can wrap this layer.

    Args:
        units: int. Number of hidden units.
        reset_after: bool. See `GRUCell`. Defaults to `False`.
        return_sequences: bool. Whether to return the state of every step instead of the last.
            Defaults to `False`.
        return_state: bool. Whether to return the last state as well. Defaults to `False`.
        go_backwards: bool. Whether to read the inputs, and return the states, from the last step to the first.
            Defaults to `False`.
        kernel_initializer, recurrent_initializer: see `GRUCell`.

    Call arguments:
        inputs: float tensor `(batch, time, features)`.
        mask: boolean tensor `(batch, time)`, false where padded. Optional.
        initial_state: tensor `(batch, units)`, or a list of this tensor. Defaults to zeros.

    Returns:
        tensor `(batch, units)`, or `(batch, time, units)` with `return_sequences`; with `return_state` a tuple of it
        and the last state `(batch, units)`.

    Example:

    >>> import keras
    >>> tuple(GRU(4, return_sequences=True)(keras.ops.ones((2, 3, 5))).shape)
    (2, 3, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), equations 5 to 8
    """

    # `keras.layers.Bidirectional` reads these attributes of a recurrent layer.
    stateful = False
    states = None

    def __init__(
        self,
        units: int,
        reset_after: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        kernel_initializer: keras.initializers.Initializer | str | None = None,
        recurrent_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.reset_after = reset_after
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.cell = GRUCell(
            units, reset_after, kernel_initializer, recurrent_initializer, dtype=self.dtype_policy, name="cell"
        )
        self.kernel_initializer = self.cell.kernel_initializer
        self.recurrent_initializer = self.cell.recurrent_initializer
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.supports_masking = True

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        self.cell.build((input_shape[0], input_shape[-1]))
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, initial_state: Tensor | list[Tensor] | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        if initial_state is None:
            initial_state = self.cell.get_initial_state(ops.shape(inputs)[0])
        if isinstance(initial_state, (list, tuple)):
            (initial_state,) = initial_state
        if self.go_backwards:
            inputs, mask = ops.flip(inputs, axis=1), self._flip_mask(mask)
        cell = self.cell
        states = run_recurrence(
            cell.step, cell.project_inputs(inputs), {"hidden": initial_state}, cell.parameters(), mask
        )["hidden"]
        outputs = states if self.return_sequences else states[:, -1]
        return (outputs, states[:, -1]) if self.return_state else outputs

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor) -> Tensor:
        mask = previous_mask if self.return_sequences else None
        if self.go_backwards:
            mask = self._flip_mask(mask)
        return (mask, None) if self.return_state else mask

    def compute_output_shape(
        self, inputs_shape: tuple[int | None, ...], initial_state_shape: tuple | list[tuple] | None = None
    ) -> tuple:
        last = (inputs_shape[0], self.units)
        outputs = (*inputs_shape[:2], self.units) if self.return_sequences else last
        return (outputs, last) if self.return_state else outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "reset_after": self.reset_after,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "go_backwards": self.go_backwards,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }

    @staticmethod
    def _flip_mask(mask: Tensor | None) -> Tensor | None:
        return None if mask is None else ops.flip(ops.cast(mask, "bool"), axis=1)
