"""Base class of language models, p(target), and the substitute for their encoder."""

import keras
from keras import ops

from keras_encdec.backend.gradients import without_gradients
from keras_encdec.backend.types import Encoded, Structure, Tensor
from keras_encdec.models.contract import Decoder, Encoder, TensorSpec
from keras_encdec.models.log_probs import SPECIAL_IDS, id_tensor, sequence_log_probs
from keras_encdec.models.translation_model import TranslationModel


class ZeroStates(Encoder):
    """Replaces the encoder in a model without a source: returns zeros as the decoder's first state.

    Args:
        state_spec: dict of str to TensorSpec, of the decoder.

    Call arguments:
        source: tensor `(batch, ...)`; only the size of the batch is read.

    Returns:
        dict of zero tensors `(batch, ...)`.
    """

    def __init__(self, state_spec: dict[str, TensorSpec], **kwargs: object) -> None:
        super().__init__(**kwargs)
        self._state_spec = state_spec

    @property
    def encoded_spec(self) -> dict[str, TensorSpec]:
        return self._state_spec

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        return {}

    def call(self, source: Tensor) -> Encoded:
        rows = ops.shape(source)[0]
        return {
            name: ops.zeros((rows, *spec.shape), dtype=spec.dtype or self.compute_dtype)
            for name, spec in self._state_spec.items()
        }


class LanguageModel(TranslationModel):
    """Base of language models: a decoder that starts from zero states, without a source.

    A subclass names its `config_class` and defines `new_decoder`.

    Args:
        words: int. Words in the shortlist, without the three special ids.
        **arguments: hyper-parameters of the `config_class`, and arguments of `keras.Model`, such as `dtype`.

    Call arguments:
        inputs: dict with "target" `(batch, time)`, integer ids; or the ids alone.

    Returns:
        float32 tensor `(batch, time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of a wrong type or out of bounds.
    """

    has_source = False

    def __init__(self, words: int, **arguments: object) -> None:
        super().__init__(source_words=0, target_words=words, **arguments)
        self.decoder = self.new_decoder(words + SPECIAL_IDS)
        self.encoder = ZeroStates(self.decoder.state_spec, dtype=self.dtype_policy, name="encoder")
        self.build()

    def new_decoder(self, vocabulary_size: int) -> Decoder:
        """Makes the decoder of the configuration, with the model's dtype policy and the name "decoder".

        Args:
            vocabulary_size: int. Number of ids, specials included.
        """
        raise NotImplementedError

    @staticmethod
    def sides(inputs: Structure) -> tuple[Tensor, Tensor]:
        """Returns the target twice; the encoder reads only the batch size of the source."""
        if isinstance(inputs, dict) and "target" not in inputs or isinstance(inputs, tuple | list):
            found = f"a dict of {', '.join(map(repr, inputs))}" if isinstance(inputs, dict) else "several inputs"
            raise ValueError(f'found {found}, expected {{"target": ids}}, or the ids alone')
        target = inputs["target"] if isinstance(inputs, dict) else inputs
        return target, target

    @without_gradients
    def token_log_probs(self, target: Tensor) -> Tensor:
        """Computes log p(y_t | y_<t) of each token.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch, time)`, nats; 0 on padding.

        Raises:
            ValueError: for an array that does not hold such ids.
        """
        return self({"target": id_tensor("target", target, self.target_words + SPECIAL_IDS)})

    @without_gradients
    def score(self, target: Tensor) -> Tensor:
        """Computes log p(y), including the end of sequence, without length normalization.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch,)`, nats.

        Raises:
            ValueError: for an array that does not hold such ids.
        """
        return sequence_log_probs(self.token_log_probs(target))

    def get_config(self) -> dict[str, object]:
        config = super().get_config()
        del config["source_words"]
        config["words"] = config.pop("target_words")
        return config
