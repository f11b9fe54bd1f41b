"""Encoder of the RNN Encoder-Decoder: a source sequence to its summary."""

from typing import Any

import keras

from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.gru import GRU
from keras_encdec.layers.initializers import published_normal
from keras_encdec.models.encoder import Encoder
from keras_encdec.models.tensor_spec import TensorSpec


@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNEncoder(Encoder):
    """Reads a source and summarizes it in one vector of fixed length.

        h_t = GRU(e(x_t), h_{t-1}),   h_0 = 0
        c   = tanh(h_N V + b_V)

    h_N is the state after the end of sequence; padding is skipped.

    Args:
        vocabulary_size: int. Number of source ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units, and width of the summary.
        reset_after: bool. See `keras_encdec.layers.GRUCell`. Defaults to `False`.
        initial_stddev: float. Of the initial weights that are not recurrent. Defaults to `0.01`.

    Call arguments:
        source: integer tensor `(batch, time)`: ids closed by the end of sequence (2), then padding (0).

    Returns:
        dict: "summary", float tensor `(batch, units)`, c.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 2.2 and appendix A.1.1
    """

    is_incremental = True

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        reset_after: bool = False,
        initial_stddev: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.reset_after = reset_after
        self.initial_stddev = initial_stddev
        policy = self.dtype_policy

        def normal():
            return published_normal(initial_stddev)

        self.embedding = FactorizedEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer=normal(), dtype=policy
        )
        self.gru = GRU(units, reset_after=reset_after, kernel_initializer=normal(), dtype=policy)
        self.summary = keras.layers.Dense(units, activation="tanh", kernel_initializer=normal(), dtype=policy)

    def build(self, source_shape: tuple | None = None) -> None:
        self.embedding.build((None, None))
        self.gru.build((None, None, self.embedding_dim))
        self.summary.build((None, self.units))
        self.built = True

    @property
    def encoded_spec(self) -> dict[str, TensorSpec]:
        return {"summary": TensorSpec((self.units,))}

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        return {"hidden": TensorSpec((self.units,))}

    def call(self, source: Any) -> dict[str, Any]:
        hidden = self.gru(self.embedding(source), mask=self.embedding.compute_mask(source))
        return self.finish({"hidden": hidden})

    def step(self, ids: Any, state: dict[str, Any]) -> dict[str, Any]:
        cell = self.gru.cell
        return cell.step(cell.project_inputs(self.embedding(ids)), state, cell.parameters())

    def finish(self, state: dict[str, Any]) -> dict[str, Any]:
        return {"summary": self.summary(state["hidden"])}

    def symbols(self) -> dict[str, tuple[Any, slice]]:
        encoder = {
            **self.gru.cell.symbols(),
            "V": (self.summary.kernel, slice(None)),
            "b_V": (self.summary.bias, slice(None)),
        }
        embedding = {"source.E": (self.embedding.embeddings, slice(None))}
        return {**embedding, **{f"encoder.{name}": where for name, where in encoder.items()}}

    def compute_output_shape(self, source_shape: tuple) -> dict[str, tuple]:
        return {"summary": (source_shape[0], self.units)}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "reset_after": self.reset_after,
            "initial_stddev": self.initial_stddev,
        }
