"""The recurrent language model."""

import keras

from keras_encdec.architectures.configurations import RecurrentLanguageModelConfig
from keras_encdec.configuration import Configuration
from keras_encdec.layers.cells import recurrent_cell_class
from keras_encdec.models.language_model import LanguageModel
from keras_encdec.models.recurrent_decoder import RecurrentDecoder


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentLanguageModel(LanguageModel):
    """Learns p(target) of sentences with stacked recurrent layers: a decoder without a source.

        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   h_t^(0) = e(y_{t-1}),   s_0^(l) = 0
        p(y_t | y_<t) = softmax(h_t^(L) W_hy + b_hy)

    y_0 is the end of sequence, which marks where sentences meet. The ids are those of
    `RecurrentEncoderDecoder`, of which this is the decoder, and so are the loss and the metrics:

        model.compile(keras.optimizers.SGD(1.0, global_clipnorm=5.0), reduction="mean")
        model.fit({"target": target}, batch_size=128)

    Args:
        words: int. Words in the shortlist, the three special ids not counted.
        **arguments: hyper-parameters of `RecurrentLanguageModelConfig`, and arguments of `keras.Model`, such as
            `dtype`.

    Call arguments:
        inputs: dict with "target" `(batch, time)`, or these integer ids.

    Returns:
        float32 tensor `(batch, time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of another type or out of its bounds, or a cell that is not registered.

    Example:

    >>> model = RecurrentLanguageModel(30, layers=1, units=8, embedding_dim=4)
    >>> tuple(model.score([[7, 8, 2], [9, 2, 0]]).shape)
    (2,)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2
    """

    config_class = RecurrentLanguageModelConfig

    @classmethod
    def check_config(cls, config: Configuration) -> None:
        recurrent_cell_class(config.cell)

    def new_decoder(self, vocabulary_size: int) -> RecurrentDecoder:
        config = self.config
        return RecurrentDecoder(
            vocabulary_size,
            config.embedding_dim,
            config.units,
            config.cell,
            config.layers,
            dropout=config.dropout,
            initial_scale=config.initial_scale,
            dtype=self.dtype_policy,
            name="decoder",
        )
