"""GRU layer over a sequence."""

import keras
from keras import ops

from keras_encdec.layers.gru_cell import GRUCell
from keras_encdec.layers.recurrence import run_recurrence


@keras.saving.register_keras_serializable(package="keras_encdec")
class GRU(keras.layers.Layer):
    """`GRUCell` run along a sequence, from h_0 = 0.

    The input projections of all time steps are one matrix product; only the recurrent products wait
    for one another. A masked step keeps the previous state, so what is returned does not depend on
    padding, wherever it stands.

    Args:
        units: int. Number of hidden units.
        reset_after: bool. See `GRUCell`. Defaults to `False`.
        return_sequences: bool. Whether to return the state of every step instead of the last.
            Defaults to `False`.
        kernel_initializer, recurrent_initializer: see `GRUCell`.

    Call arguments:
        inputs: float tensor `(batch, time, features)`.
        mask: boolean tensor `(batch, time)`, false where padded. Optional.
        initial_state: tensor `(batch, units)`. Defaults to zeros.

    Returns:
        tensor `(batch, units)`, or `(batch, time, units)` with `return_sequences`.

    Example:

    >>> import keras
    >>> tuple(GRU(4, return_sequences=True)(keras.ops.ones((2, 3, 5))).shape)
    (2, 3, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), equations 5 to 8
    """

    def __init__(
        self,
        units,
        reset_after=False,
        return_sequences=False,
        kernel_initializer=None,
        recurrent_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.units = units
        self.reset_after = reset_after
        self.return_sequences = return_sequences
        self.cell = GRUCell(
            units, reset_after, kernel_initializer, recurrent_initializer, dtype=self.dtype_policy, name="cell"
        )
        self.kernel_initializer = self.cell.kernel_initializer
        self.recurrent_initializer = self.cell.recurrent_initializer
        self.supports_masking = True

    def build(self, input_shape):
        self.cell.build((input_shape[0], input_shape[-1]))
        self.built = True

    def call(self, inputs, mask=None, initial_state=None):
        if initial_state is None:
            initial_state = self.cell.get_initial_state(ops.shape(inputs)[0])[0]
        cell = self.cell
        states = run_recurrence(cell.step, cell.parameters(), cell.project_inputs(inputs), initial_state, mask)
        return states if self.return_sequences else states[:, -1]

    def compute_mask(self, inputs, previous_mask):
        return previous_mask if self.return_sequences else None

    def compute_output_shape(self, input_shape):
        last = (self.units,)
        return (*input_shape[:2], *last) if self.return_sequences else (input_shape[0], *last)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "reset_after": self.reset_after,
            "return_sequences": self.return_sequences,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }
