"""What the decoder of a language model is started from."""

from typing import Any

from keras import ops

from keras_encdec.models.encoder import Encoder
from keras_encdec.models.tensor_spec import TensorSpec


class ZeroStates(Encoder):
    """Stands for the encoder of a model without a source: gives zeros for the decoder's first states.

    Args:
        state_spec: dict of str to TensorSpec, of the decoder.

    Call arguments:
        source: tensor `(batch, ...)`; only the size of the batch is read.

    Returns:
        dict of zero tensors `(batch, ...)`.
    """

    def __init__(self, state_spec: dict[str, TensorSpec], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._state_spec = state_spec

    @property
    def encoded_spec(self) -> dict[str, TensorSpec]:
        return self._state_spec

    def symbols(self) -> dict[str, Any]:
        return {}

    def call(self, source: Any) -> dict[str, Any]:
        rows = ops.shape(source)[0]
        return {
            name: ops.zeros((rows, *spec.shape), dtype=spec.dtype or self.compute_dtype)
            for name, spec in self._state_spec.items()
        }
