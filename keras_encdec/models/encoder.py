"""The encoder contract: what every encoder has, whatever is inside."""

from typing import Any

import keras

from keras_encdec.models.tensor_spec import TensorSpec


class Encoder(keras.layers.Layer):
    """Base of encoders.

    A subclass sets `encoded_spec` and has `call`. One that reads a source strictly from left to right, so that
    sources with a common prefix share its states, says so by `is_incremental` and has `state_spec`, `step` and
    `finish` as well.

    Call arguments:
        source: integer tensor `(sources, time)`: ids closed by the end of sequence (2), then padding (0).

    Returns:
        dict of tensors, `encoded`: what the decoder is started from, one row a source.
    """

    #: Whether the encoding is finished from a state that reads one id at a time.
    is_incremental: bool = False

    def build(self, source_shape: tuple | None = None) -> None:
        """Makes the weights; every size is known, so that no shape is needed."""
        self.built = True

    @property
    def encoded_spec(self) -> dict[str, TensorSpec]:
        """Name, shape and dtype of each tensor of `encoded`."""
        raise NotImplementedError

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        """Of an incremental encoder: name, shape and dtype of each tensor of its state; all zero at first."""
        raise NotImplementedError

    def symbols(self) -> dict[str, tuple[Any, slice]]:
        """The weights by the symbols of the equations, see `to_symbols`.

        Returns:
            dict of symbol, such as "encoder.U_r", to a variable and the columns of it.
        """
        raise NotImplementedError(f"{type(self).__name__} names no weights by symbols; give it the method symbols()")

    def step(self, ids: Any, state: dict[str, Any]) -> dict[str, Any]:
        """Of an incremental encoder: the state after one more id.

        Args:
            ids: integer tensor `(rows,)`, none of them padding.
            state: dict of tensors with as many rows.
        """
        raise NotImplementedError

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        """Of an incremental encoder: `encoded` from the state after the end of sequence."""
        raise NotImplementedError
