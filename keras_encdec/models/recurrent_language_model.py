"""The recurrent language model."""

import keras
from keras import ops

from keras_encdec.models.decoder import Decoder
from keras_encdec.models.log_probs import sequence_log_probs, token_log_probs
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.translation_model import SPECIAL_IDS, TranslationModel
from keras_encdec.text.vocabulary import END


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentLanguageModel(TranslationModel):
    """Learns p(target) of sentences with stacked recurrent layers: a decoder without a source.

        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   h_t^(0) = e(y_{t-1}),   s_0^(l) = 0
        p(y_t | y_<t) = softmax(h_t^(L) W_hy + b_hy)

    y_0 is the end of sequence, which marks where sentences meet. The ids are those of
    `RecurrentEncoderDecoder`, of which this is the decoder, and so are the loss and the metrics:

        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), reduction="mean")
        model.fit({"target": target}, batch_size=128)

    Args:
        words: int. Words in the shortlist, the three special ids not counted.
        cell, layers, units, embedding_dim, dropout, initial_scale: see `RecurrentEncoderDecoder`.

    Call arguments:
        inputs: dict with "target" `(batch, time)`, or these integer ids.

    Returns:
        float32 tensor `(batch, time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a `cell` there is none of, or less than one layer.

    Example:

    >>> model = RecurrentLanguageModel(30, layers=1, units=8, embedding_dim=4)
    >>> tuple(model.score([[7, 8, 2], [9, 2, 0]]).shape)
    (2,)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2
    """

    def __init__(
        self,
        words,
        cell="lstm",
        layers=2,
        units=256,
        embedding_dim=256,
        dropout=0.0,
        initial_scale=0.1,
        **kwargs,
    ):
        super().__init__(source_words=0, target_words=words, **kwargs)
        self.words = words
        self.cell = cell
        self.depth = layers
        self.units = units
        self.embedding_dim = embedding_dim
        self.dropout = dropout
        self.initial_scale = initial_scale
        self.decoder = RecurrentDecoder(
            words + SPECIAL_IDS,
            embedding_dim,
            units,
            cell,
            layers,
            dropout=dropout,
            initial_scale=initial_scale,
            dtype=self.dtype_policy,
            name="decoder",
        )
        self.build()

    def build(self, input_shape=None):
        if not self.built:
            self.decoder.build()
            self.built = True

    def call(self, inputs, training=None):
        _, target = self.sides(inputs)
        logits = self.decoder(Decoder.previous_words(target), self.encode(target), training=training)
        return token_log_probs(logits, target)

    @staticmethod
    def sides(inputs):
        """No source, and the target of what the model is called with."""
        return None, inputs["target"] if isinstance(inputs, dict) else inputs

    def encode(self, source):
        """The first states of the decoder's layers, zero.

        Args:
            source: tensor `(batch, ...)`; only the size of the batch is taken.

        Returns:
            list of float tensors `(batch, width)`.
        """
        batch = ops.shape(source)[0]
        return [state for cell in self.decoder.cells for state in cell.get_initial_state(batch)]

    def token_log_probs(self, target):
        """log p(y_t | y_<t) of each token.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch, time)`, nats; 0 on padding.
        """
        return self({"target": ops.convert_to_tensor(target, "int32")})

    def score(self, target):
        """log p(y), end of sequence included, no length normalization.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch,)`, nats.
        """
        return sequence_log_probs(self.token_log_probs(target))

    def generate(self, count=1, sampler="greedy", max_length=50, **arguments):
        """Generates sequences.

        Args:
            count: int. How many sources there were if there were any: so many lists of hypotheses are
                returned. Defaults to `1`: a sampler draws several itself.
            sampler: see `TranslationModel.generate`. Defaults to "greedy".
            max_length: int. Words of a sequence at most. Defaults to `50`.
            **arguments: of `keras_encdec.decoding.Generator.generate`.

        Returns:
            list of lists of `keras_encdec.decoding.Hypothesis`, the best first.
        """
        return super().generate([[END]] * count, sampler, max_length=max_length, **arguments)

    def get_config(self):
        return {
            **super().get_config(),
            "words": self.words,
            "cell": self.cell,
            "layers": self.depth,
            "units": self.units,
            "embedding_dim": self.embedding_dim,
            "dropout": self.dropout,
            "initial_scale": self.initial_scale,
        }
