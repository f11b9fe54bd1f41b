"""The RNN Encoder-Decoder of Cho et al., 2014: the model, its encoder, its decoder, its optimizer."""

import functools

import keras
from keras import ops

from keras_encdec.architectures.configurations import RNNEncoderDecoderConfig
from keras_encdec.backend.types import Encoded, Memory, Shape, State, Tensor
from keras_encdec.layers.deep_output import DeepOutput
from keras_encdec.layers.dense import Dense
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.gru import GRU, ContextGRUCell
from keras_encdec.layers.initializers import published_normal
from keras_encdec.layers.recurrence import run_recurrence
from keras_encdec.models.contract import Decoder, Encoder, TensorSpec
from keras_encdec.models.log_probs import SPECIAL_IDS
from keras_encdec.models.translation_model import EncoderDecoder, register_model


@register_model("encdec")
@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNEncoderDecoder(EncoderDecoder):
    """Learns p(target | source) of phrase pairs, and scores them.

    Ids: 0 padding, 1 unknown word, 2 end of sequence, words from 3. Source and target are both
    closed by 2 and then padded with 0. The model maps the two to log p(y_t | y_<t, x) of each target
    token. Its loss is minus the sum of these over the batch (see `compile`):

        model.compile(published_optimizer())
        model.fit({"source": source, "target": target}, batch_size=64)

    `fit` and `evaluate` report `perplexity`, per target token including the end of sequence, and `log_likelihood`, in
    nats per pair. `sample_weight` `(pairs,)` weights pairs in the loss. Keras requires `y` with it: pass the target
    again.

    Args:
        source_words, target_words: int. Words in each shortlist, without the three special ids.
        **arguments: hyper-parameters of `RNNEncoderDecoderConfig` (`embedding_dim`, `units`, `maxout_units`,
            `output_rank`, `reset_after`, `initial_stddev`), whose defaults are the paper's, and arguments of
            `keras.Model`, such as `dtype`.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, integer ids; or a tuple
            of the two.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of a wrong type or out of bounds.

    Example:

    >>> model = RNNEncoderDecoder(20, 30, embedding_dim=4, units=8, maxout_units=4, output_rank=4)
    >>> tuple(model.score([[5, 6, 2]], [[7, 2]]).shape)
    (1,)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078)
    """

    config_class = RNNEncoderDecoderConfig
    config: RNNEncoderDecoderConfig

    def __init__(self, source_words: int, target_words: int, **arguments: object) -> None:
        super().__init__(source_words, target_words, **arguments)
        config, policy = self.config, self.dtype_policy
        self.encoder = RNNEncoder(
            source_words + SPECIAL_IDS,
            config.embedding_dim,
            config.units,
            config.reset_after,
            config.initial_stddev,
            dtype=policy,
            name="encoder",
        )
        self.decoder = RNNDecoder(
            target_words + SPECIAL_IDS,
            config.embedding_dim,
            config.units,
            config.maxout_units,
            config.output_rank,
            config.initial_stddev,
            dtype=policy,
            name="decoder",
        )
        # All sizes are known: build the weights now, so that they can be counted, set or loaded.
        self.build()


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
        initial_stddev: float. Standard deviation of the initial weights that are not recurrent. Defaults to `0.01`.

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
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.reset_after = reset_after
        self.initial_stddev = initial_stddev
        policy, normal = self.dtype_policy, functools.partial(published_normal, initial_stddev)
        self.embedding = FactorizedEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer=normal(), dtype=policy
        )
        self.gru = GRU(units, reset_after=reset_after, kernel_initializer=normal(), dtype=policy)
        self.summary = Dense(units, activation="tanh", kernel_initializer=normal(), dtype=policy)

    def build(self, source_shape: Shape | None = None) -> None:
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

    def call(self, source: Tensor) -> Encoded:
        hidden = self.gru(self.embedding(source), mask=self.embedding.compute_mask(source))
        return self.finish({"hidden": hidden})

    def step(self, ids: Tensor, state: State) -> State:
        cell = self.gru.cell
        return cell.step(cell.project_inputs(self.embedding(ids)), state, cell.parameters())

    def finish(self, state: State) -> Encoded:
        return {"summary": self.summary(state["hidden"])}

    def weight_classes(self) -> dict[str, list[keras.Variable]]:
        return {"encoder layer 1": [*self.gru.weights, *self.summary.weights]}

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        encoder = {
            **self.gru.cell.symbols(),
            "V": (self.summary.kernel, slice(None)),
            "b_V": (self.summary.bias, slice(None)),
        }
        embedding = {"source.E": (self.embedding.embeddings, slice(None))}
        return {**embedding, **{f"encoder.{name}": where for name, where in encoder.items()}}

    def get_config(self) -> dict[str, object]:
        names = "vocabulary_size", "embedding_dim", "units", "reset_after", "initial_stddev"
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


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
        initial_stddev: float. Standard deviation of the initial weights that are not recurrent. Defaults to `0.01`.

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
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.maxout_units = maxout_units
        self.output_rank = output_rank
        self.initial_stddev = initial_stddev
        policy, normal = self.dtype_policy, functools.partial(published_normal, initial_stddev)
        self.embedding = FactorizedEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer=normal(), dtype=policy
        )
        self.initial_state = Dense(units, activation="tanh", kernel_initializer=normal(), dtype=policy)
        self.cell = ContextGRUCell(units, kernel_initializer=normal(), dtype=policy)
        self.readout = DeepOutput(vocabulary_size, maxout_units, output_rank, kernel_initializer=normal(), dtype=policy)

    def build(self, previous_shape: Shape | None = None, encoded_shape: dict[str, Shape] | None = None) -> None:
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
        return {"gate_context": TensorSpec((3 * self.units,)), "readout_context": TensorSpec((2 * self.maxout_units,))}

    @property
    def output_weights(self) -> tuple[Tensor, Tensor]:
        return self.readout.left_factor, self.readout.output_bias

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        summary = encoded["summary"]
        memory = {
            "gate_context": self.cell.project_context(summary),
            "readout_context": self.readout.project_context(summary),
        }
        return {"hidden": self.initial_state(summary)}, memory

    def advance(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> State:
        context = self.take_memory(memory["gate_context"], ops.shape(previous)[0], source_of_row)
        inputs = self.cell.project_inputs(self.embedding(previous))
        return self.cell.step(inputs, state, self.cell.context_parameters(context))

    def features(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        context = self.take_memory(memory["readout_context"], ops.shape(previous)[0], source_of_row)
        return self.readout.reduce(state["hidden"], self.embedding(previous), context)

    # Faster than in the base class: looks up the words once, and projects the inputs of all steps at once.
    def call(self, previous: Tensor, encoded: Encoded) -> Tensor:
        state, memory = self.start(encoded)
        embedded = self.embedding(previous)
        inputs, parameters = self.cell.project_inputs(embedded), self.cell.context_parameters(memory["gate_context"])
        states = run_recurrence(self.cell.step, inputs, state, parameters)
        context = ops.expand_dims(memory["readout_context"], 1)
        return self.logits(self.readout.reduce(states["hidden"], embedded, context))

    def weight_classes(self) -> dict[str, list[keras.Variable]]:
        readout = self.readout
        return {
            "decoder layer 1": [*self.initial_state.weights, *self.cell.weights],
            "maxout": [readout.state_kernel, readout.previous_kernel, readout.context_kernel],
            "softmax": [readout.right_factor, readout.left_factor],
        }

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        readout = self.readout
        variables = {
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
        symbols = {name: (variable, slice(None)) for name, variable in variables.items()}
        return {**symbols, **{f"decoder.{name}": where for name, where in self.cell.symbols().items()}}

    def get_config(self) -> dict[str, object]:
        names = "vocabulary_size", "embedding_dim", "units", "maxout_units", "output_rank", "initial_stddev"
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def published_optimizer() -> keras.optimizers.Optimizer:
    """Returns Adadelta as published: rho 0.95, epsilon 1e-6, learning rate 1, global norm of the gradient clipped at 1.

    Keras's own defaults differ (learning rate 0.001, epsilon 1e-7, no clipping).

    Returns:
        `keras.optimizers.Adadelta`.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1; the clipping comes from the authors' code.
    """
    return keras.optimizers.Adadelta(learning_rate=1.0, rho=0.95, epsilon=1e-6, global_clipnorm=1.0)
