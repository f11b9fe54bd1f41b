"""Decoder: a summary and the previous words to the logits of the next."""

import keras
from keras import ops

from keras_encdec.layers.context_gru_cell import ContextGRUCell
from keras_encdec.layers.deep_output import DeepOutput
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.initializers import published_normal
from keras_encdec.layers.recurrence import run_recurrence


@keras.saving.register_keras_serializable(package="keras_encdec")
class Decoder(keras.layers.Layer):
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
        context: float tensor `(batch, units)`: the summary.

    Returns:
        float tensor `(batch, time, vocabulary_size)`: logits.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 2.2 and appendix A.1.2
    """

    def __init__(
        self, vocabulary_size, embedding_dim, units, maxout_units, output_rank, initial_stddev=0.01, **kwargs
    ):
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

    def build(self, previous_shape=None, context_shape=None):
        self.embedding.build((None, None))
        self.initial_state.build((None, self.units))
        self.cell.build((None, self.embedding_dim))
        self.readout.build((None, None, self.units), (None, None, self.embedding_dim), (None, self.units))
        self.built = True

    def call(self, previous, context):
        embedded = self.embedding(previous)
        # No mask: padding follows the end of sequence, so no state that counts comes after it.
        states = run_recurrence(
            self.cell.step,
            self.cell.parameters(self.cell.project_context(context)),
            self.cell.project_inputs(embedded),
            self.initial_state(context),
        )
        return self.readout(states, embedded, context)

    def start(self, context):
        """What decoding word by word begins with, see `RNNEncoderDecoder.start`."""
        return [self.initial_state(context)], [
            self.cell.project_context(context),
            self.readout.project_context(context),
        ]

    def step(self, previous, states, memory):
        """The logits of the next word, see `RNNEncoderDecoder.step`."""
        features, states = self.advance(previous, states, memory)
        return self.readout.logits(features), states

    def advance(self, previous, states, memory):
        """As `step`, but s G_r `(batch, output_rank)` instead of the logits: what the output matrix multiplies."""
        cell_context, readout_context = memory
        embedded = self.embedding(previous)
        inputs = self.cell.project_inputs(embedded)
        state, _ = self.cell.step.forward(inputs, states[0], self.cell.parameters(cell_context))
        return self.readout.reduce(state, embedded, readout_context), [state]

    @property
    def output_weights(self):
        """The output matrix `(output_rank, vocabulary_size)` and its bias."""
        return self.readout.left_factor, self.readout.output_bias

    @property
    def state_sizes(self):
        """Widths of the states of `start`: list of int."""
        return [self.units]

    @property
    def memory_sizes(self):
        """Widths of what `start` remembers of the source: list of int."""
        return [3 * self.units, 2 * self.maxout_units]

    def compute_output_shape(self, previous_shape, context_shape):
        return (*previous_shape, self.vocabulary_size)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "maxout_units": self.maxout_units,
            "output_rank": self.output_rank,
            "initial_stddev": self.initial_stddev,
        }

    @staticmethod
    def previous_words(target):
        """y_0 .. y_{T-1} from y_1 .. y_T: a 0, no previous word, before the target without its last id."""
        return ops.pad(target[:, :-1], [[0, 0], [1, 0]])
