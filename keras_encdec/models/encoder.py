"""Encoder: a source sequence to its summary."""

import keras

from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.gru import GRU
from keras_encdec.layers.initializers import published_normal


@keras.saving.register_keras_serializable(package="keras_encdec")
class Encoder(keras.layers.Layer):
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
        float tensor `(batch, units)`: the summary c.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 2.2 and appendix A.1.1
    """

    def __init__(self, vocabulary_size, embedding_dim, units, reset_after=False, initial_stddev=0.01, **kwargs):
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

    def build(self, source_shape=None):
        self.embedding.build((None, None))
        self.gru.build((None, None, self.embedding_dim))
        self.summary.build((None, self.units))
        self.built = True

    def call(self, source):
        embedded = self.embedding(source)
        return self.summary(self.gru(embedded, mask=self.embedding.compute_mask(source)))

    def compute_output_shape(self, source_shape):
        return (source_shape[0], self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "reset_after": self.reset_after,
            "initial_stddev": self.initial_stddev,
        }
