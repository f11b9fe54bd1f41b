"""The feed-forward language model."""

import keras

from keras_encdec.architectures.configurations import FeedForwardLanguageModelConfig
from keras_encdec.models.feed_forward_decoder import FeedForwardDecoder
from keras_encdec.models.language_model import LanguageModel


@keras.saving.register_keras_serializable(package="keras_encdec")
class FeedForwardLanguageModel(LanguageModel):
    """Learns p(target) of sentences as a product over n-grams: a continuous-space language model (CSLM).

        h_t^(0) = [e(y_{t-n+1}); ..; e(y_{t-1})],   h_t^(l) = max(0, h_t^(l-1) W^(l) + b^(l))
        p(y_t | y_<t) = p(y_t | y_{t-n+1} .. y_{t-1}) = softmax(h_t^(L) W_hy + b_hy)

    The ids, the loss and the metrics are those of the other models:

        model.compile(published_optimizer())
        model.fit({"target": target}, batch_size=64)

    Args:
        words: int. Words in the shortlist, the three special ids not counted.
        **arguments: hyper-parameters of `FeedForwardLanguageModelConfig`, and arguments of `keras.Model`, such as
            `dtype`.

    Call arguments:
        inputs: dict with "target" `(batch, time)`, or these integer ids.

    Returns:
        float32 tensor `(batch, time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of another type or out of its bounds.

    Example:

    >>> model = FeedForwardLanguageModel(30, ngram_order=3, embedding_dim=4, hidden_units=(8, 6))
    >>> tuple(model.score([[7, 8, 2], [9, 2, 0]]).shape)
    (2,)

    Reference:
        - Schwenk, 2007, "Continuous space language models"
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1.2
    """

    config_class = FeedForwardLanguageModelConfig

    def new_decoder(self, vocabulary_size: int) -> FeedForwardDecoder:
        return FeedForwardDecoder(vocabulary_size, **self.config.to_dict(), dtype=self.dtype_policy, name="decoder")
