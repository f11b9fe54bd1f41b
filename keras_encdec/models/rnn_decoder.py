"""Decoder of the RNN Encoder-Decoder: a summary and the previous words to the logits of the next."""

from typing import Any

import keras
from keras import ops

from keras_encdec.layers.context_gru_cell import ContextGRUCell
from keras_encdec.layers.deep_output import DeepOutput
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.initializers import published_normal
from keras_encdec.layers.recurrence import run_recurrence
from keras_encdec.models.decoder import Decoder
from keras_encdec.models.tensor_spec import TensorSpec


@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNDecoder(Decoder):
    """Predicts each target word from the summary c and the words before it.

        h_0    = tanh(c V' + b_V')
        h_t    = ContextGRU(e(y_{t-1}), h_{t-1}, c),   e(y_0) = 0
        logits = DeepOutput(h_t, e(y_{t-1}), c)

    Args:
        vocabulary_size: int. Number of target ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units, and width of the summary.
        maxout_units: int. Number of maxout units of the readout.
        output_rank: int. Rank of the output matrix.
        initial_stddev: float. Of the initial weights that are not recurrent. Defaults to `0.01`.

    Call arguments:
        previous: integer tensor `(batch, time)`: y_0 .. y_{T-1}, that is 0 and then the target
            without its last id.
        encoded: dict with "summary" `(batch, units)`, c.

    Returns:
        float tensor `(batch, time, vocabulary_size)`: logits.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 2.2 and appendix A.1.2
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        maxout_units: int,
        output_rank: int,
        initial_stddev: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.maxout_units = maxout_units
        self.output_rank = output_rank
        self.initial_stddev = initial_stddev
        policy = self.dtype_policy

        def normal():
            return published_normal(initial_stddev)

        self.embedding = FactorizedEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer=normal(), dtype=policy
        )
        self.initial_state = keras.layers.Dense(units, activation="tanh", kernel_initializer=normal(), dtype=policy)
        self.cell = ContextGRUCell(units, kernel_initializer=normal(), dtype=policy)
        self.readout = DeepOutput(
            vocabulary_size, maxout_units, output_rank, kernel_initializer=normal(), dtype=policy
        )

    def build(self, previous_shape: tuple | None = None, encoded_shape: Any = None) -> None:
        self.embedding.build((None, None))
        self.initial_state.build((None, self.units))
        self.cell.build((None, self.embedding_dim))
        self.readout.build((None, None, self.units), (None, None, self.embedding_dim), (None, self.units))
        self.built = True

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        return {"hidden": TensorSpec((self.units,))}

    @property
    def memory_spec(self) -> dict[str, TensorSpec]:
        return {
            "gate_context": TensorSpec((3 * self.units,)),
            "readout_context": TensorSpec((2 * self.maxout_units,)),
        }

    @property
    def output_weights(self) -> tuple[Any, Any]:
        return self.readout.left_factor, self.readout.output_bias

    def start(self, encoded: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        summary = encoded["summary"]
        memory = {
            "gate_context": self.cell.project_context(summary),
            "readout_context": self.readout.project_context(summary),
        }
        return {"hidden": self.initial_state(summary)}, memory

    def advance(
        self, previous: Any, state: dict[str, Any], memory: dict[str, Any], source_of_row: Any = None
    ) -> dict[str, Any]:
        context = self.take_memory(memory["gate_context"], ops.shape(previous)[0], source_of_row)
        inputs = self.cell.project_inputs(self.embedding(previous))
        return self.cell.step(inputs, state, self.cell.parameters(context))

    def features(
        self, previous: Any, state: dict[str, Any], memory: dict[str, Any], source_of_row: Any = None
    ) -> Any:
        context = self.take_memory(memory["readout_context"], ops.shape(previous)[0], source_of_row)
        return self.readout.reduce(state["hidden"], self.embedding(previous), context)

    # As in the base, but with one look-up of the words and one projection of all steps.
    def call(self, previous: Any, encoded: dict[str, Any]) -> Any:
        state, memory = self.start(encoded)
        embedded = self.embedding(previous)
        inputs, parameters = self.cell.project_inputs(embedded), self.cell.parameters(memory["gate_context"])
        states = run_recurrence(self.cell.step, inputs, state, parameters)
        context = ops.expand_dims(memory["readout_context"], 1)
        return self.logits(self.readout.reduce(states["hidden"], embedded, context))

    def symbols(self) -> dict[str, tuple[Any, slice]]:
        readout = self.readout
        whole = {
            "target.E": self.embedding.embeddings,
            "decoder.V": self.initial_state.kernel,
            "decoder.b_V": self.initial_state.bias,
            "readout.O_h": readout.state_kernel,
            "readout.O_y": readout.previous_kernel,
            "readout.O_c": readout.context_kernel,
            "readout.b_O": readout.bias,
            "readout.G_r": readout.right_factor,
            "readout.G_l": readout.left_factor,
            "readout.b_G": readout.output_bias,
        }
        symbols = {name: (variable, slice(None)) for name, variable in whole.items()}
        return {**symbols, **{f"decoder.{name}": where for name, where in self.cell.symbols().items()}}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "maxout_units": self.maxout_units,
            "output_rank": self.output_rank,
            "initial_stddev": self.initial_stddev,
        }
