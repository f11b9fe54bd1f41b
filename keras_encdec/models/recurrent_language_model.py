"""The recurrent language model."""

from typing import TYPE_CHECKING, Any

import keras

from keras_encdec.architectures.configurations import RecurrentLanguageModelConfig
from keras_encdec.backend.no_gradients import without_gradients
from keras_encdec.configuration import Configuration
from keras_encdec.layers.cells import recurrent_cell_class
from keras_encdec.models.id_sequences import id_tensor
from keras_encdec.models.log_probs import sequence_log_probs
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.translation_model import SPECIAL_IDS, TranslationModel
from keras_encdec.models.zero_states import ZeroStates
from keras_encdec.text.vocabulary import END

if TYPE_CHECKING:
    from keras_encdec.decoding import Hypothesis, Sampler


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
    has_source = False

    @classmethod
    def check_config(cls, config: Configuration) -> None:
        recurrent_cell_class(config.cell)

    def __init__(self, words: int, **arguments: Any) -> None:
        super().__init__(source_words=0, target_words=words, **arguments)
        config, policy = self.config, self.dtype_policy
        self.decoder = RecurrentDecoder(
            words + SPECIAL_IDS,
            config.embedding_dim,
            config.units,
            config.cell,
            config.layers,
            dropout=config.dropout,
            initial_scale=config.initial_scale,
            dtype=policy,
            name="decoder",
        )
        self.encoder = ZeroStates(self.decoder.state_spec, dtype=policy, name="encoder")
        self.build()

    @staticmethod
    def sides(inputs: Any) -> tuple[Any, Any]:
        """The target twice: of what stands for the source, only the size of the batch is read."""
        if isinstance(inputs, dict) and "target" not in inputs or isinstance(inputs, tuple | list):
            found = f"a dict of {', '.join(map(repr, inputs))}" if isinstance(inputs, dict) else "several inputs"
            raise ValueError(f'found {found}, expected {{"target": ids}}, or these ids')
        target = inputs["target"] if isinstance(inputs, dict) else inputs
        return target, target

    @without_gradients
    def token_log_probs(self, target: Any) -> Any:
        """log p(y_t | y_<t) of each token.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch, time)`, nats; 0 on padding.

        Raises:
            ValueError: for an array that is no such ids.
        """
        return self({"target": id_tensor("target", target, self.target_words + SPECIAL_IDS)})

    @without_gradients
    def score(self, target: Any) -> Any:
        """log p(y), end of sequence included, no length normalization.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch,)`, nats.

        Raises:
            ValueError: for an array that is no such ids.
        """
        return sequence_log_probs(self.token_log_probs(target))

    def generate(
        self, count: int = 1, sampler: "Sampler | str" = "greedy", max_length: int = 50, **arguments: Any
    ) -> "list[list[Hypothesis]]":
        """Generates sequences.

        Args:
            count: int. How many lists of hypotheses are
                returned. Defaults to `1`: a sampler draws several itself.
            sampler: see `TranslationModel.generate`. Defaults to "greedy".
            max_length: int. Words of a sequence at most. Defaults to `50`.
            **arguments: of `keras_encdec.decoding.Generator.generate`.

        Returns:
            list of lists of `keras_encdec.decoding.Hypothesis`, the best first.
        """
        return super().generate([[END]] * count, sampler, max_length=max_length, **arguments)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["source_words"]
        config["words"] = config.pop("target_words")
        return config
