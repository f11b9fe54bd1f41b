"""The RNN Encoder-Decoder."""

from typing import Any

import keras

from keras_encdec.architectures.configurations import RNNEncoderDecoderConfig
from keras_encdec.models.id_sequences import SPECIAL_IDS
from keras_encdec.models.rnn_decoder import RNNDecoder
from keras_encdec.models.rnn_encoder import RNNEncoder
from keras_encdec.models.translation_model import TranslationModel


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
        **arguments: hyper-parameters of `RNNEncoderDecoderConfig` (`embedding_dim`, `units`, `maxout_units`,
            `output_rank`, `reset_after`, `initial_stddev`), whose defaults are the paper's, and arguments of
            `keras.Model`, such as `dtype`.

    Call arguments:
        inputs: dict with "source" `(batch, source_time)` and "target" `(batch, target_time)`, or the
            tuple of the two: integer ids.

    Returns:
        float32 tensor `(batch, target_time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of another type or out of its bounds.

    Example:

    >>> model = RNNEncoderDecoder(20, 30, embedding_dim=4, units=8, maxout_units=4, output_rank=4)
    >>> tuple(model.score([[5, 6, 2]], [[7, 2]]).shape)
    (1,)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078)
    """

    config_class = RNNEncoderDecoderConfig

    def __init__(self, source_words: int, target_words: int, **arguments: Any) -> None:
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
        # Every size is known: the weights exist at once, to be counted, set or loaded.
        self.build()


def published_optimizer() -> keras.optimizers.Optimizer:
    """Adadelta as published: rho 0.95, epsilon 1e-6, step size 1, the gradient's norm clipped at 1.

    Keras's own defaults differ (step size 0.001, epsilon 1e-7).

    Returns:
        `keras.optimizers.Adadelta`.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1; the clipping is of its authors' code.
    """
    return keras.optimizers.Adadelta(learning_rate=1.0, rho=0.95, epsilon=1e-6, global_clipnorm=1.0)
