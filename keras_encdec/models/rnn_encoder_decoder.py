"""The RNN Encoder-Decoder."""

import keras

from keras_encdec.models.decoder import Decoder
from keras_encdec.models.encoder import Encoder
from keras_encdec.models.presets import encdec_preset
from keras_encdec.models.translation_model import SPECIAL_IDS, TranslationModel


@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNEncoderDecoder(TranslationModel):
    """Learns p(target | source) of phrase pairs, and scores them.

    Ids: 0 padding, 1 unknown word, 2 end of sequence, words from 3. Source and target are both
    closed by 2 and then padded with 0. The model maps the two to log p(y_t | y_<t, x) of each target
    token; its loss is its own, minus the sum of these over the batch (see `compile`):

        model.compile(published_optimizer())
        model.fit({"source": source, "target": target}, batch_size=64)

    `fit` and `evaluate` report `perplexity`, per target token with the end of sequence, and
    `log_likelihood`, nats a pair. `sample_weight` `(pairs,)` weighs pairs in the loss; as Keras wants a
    y with it, give the target again.

    Args:
        source_words, target_words: int. Words in each shortlist, the three special ids not counted.
        embedding_dim: int. Dimension of the word embeddings. Defaults to `100`.
        units: int. Hidden units of encoder and decoder. Defaults to `1000`.
        maxout_units: int. Maxout units of the readout. Defaults to `500`.
        output_rank: int. Rank of the output matrix. Defaults to `100`.
        reset_after: bool. Where the encoder's reset gate stands, see `keras_encdec.layers.GRUCell`.
            Defaults to `False`.
        initial_stddev: float. Standard deviation of the initial weights that are not recurrent. A larger
            one than the published learns much sooner. Defaults to `0.01`, as published.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, or the
            tuple of the two: integer ids.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding.

    Example:

    >>> model = RNNEncoderDecoder(20, 30, embedding_dim=4, units=8, maxout_units=4, output_rank=4)
    >>> tuple(model.score([[5, 6, 2]], [[7, 2]]).shape)
    (1,)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078)
    """

    def __init__(
        self,
        source_words,
        target_words,
        embedding_dim=100,
        units=1000,
        maxout_units=500,
        output_rank=100,
        reset_after=False,
        initial_stddev=0.01,
        **kwargs,
    ):
        super().__init__(source_words, target_words, **kwargs)
        self.embedding_dim = embedding_dim
        self.units = units
        self.maxout_units = maxout_units
        self.output_rank = output_rank
        self.reset_after = reset_after
        self.initial_stddev = initial_stddev
        policy = self.dtype_policy
        self.encoder = Encoder(
            source_words + SPECIAL_IDS,
            embedding_dim,
            units,
            reset_after,
            initial_stddev,
            dtype=policy,
            name="encoder",
        )
        self.decoder = Decoder(
            target_words + SPECIAL_IDS,
            embedding_dim,
            units,
            maxout_units,
            output_rank,
            initial_stddev,
            dtype=policy,
            name="decoder",
        )
        # Every size is known: the weights exist at once, to be counted, set or loaded.
        self.build()

    @classmethod
    def from_preset(cls, preset, source_words, target_words, **kwargs):
        """A new model of published sizes.

        Args:
            preset: `"cho2014"` (the body of the paper), `"cho2014_supplement"` or `"small"` (for CPUs).
            source_words, target_words: int. Words in each shortlist.
            **kwargs: further arguments of the constructor; they override the preset's.

        Raises:
            ValueError: for a preset there is none of, or of another model.
        """
        return cls(source_words, target_words, **{**encdec_preset(preset), **kwargs})

    def encode(self, source):
        """The summary c of each source.

        Args:
            source: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch, units)`.
        """
        return super().encode(source)

    def get_config(self):
        return {
            **super().get_config(),
            "source_words": self.source_words,
            "target_words": self.target_words,
            "embedding_dim": self.embedding_dim,
            "units": self.units,
            "maxout_units": self.maxout_units,
            "output_rank": self.output_rank,
            "reset_after": self.reset_after,
            "initial_stddev": self.initial_stddev,
        }


def published_optimizer():
    """Adadelta as published: rho 0.95, epsilon 1e-6, step size 1, the gradient's norm clipped at 1.

    Keras's own defaults differ (step size 0.001, epsilon 1e-7).

    Returns:
        `keras.optimizers.Adadelta`.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1; the clipping is of its authors' code.
    """
    return keras.optimizers.Adadelta(learning_rate=1.0, rho=0.95, epsilon=1e-6, global_clipnorm=1.0)
