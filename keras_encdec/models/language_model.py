"""Language models, p(target): their base class, the substitute for their encoder, and the feed-forward model."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_encdec.architectures.configurations import FeedForwardLanguageModelConfig
from keras_encdec.backend.gradients import without_gradients
from keras_encdec.backend.operations import matmul
from keras_encdec.backend.types import Encoded, Memory, Shape, State, Structure, Tensor
from keras_encdec.layers.dropout import Dropout
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.models.contract import Decoder, Encoder, TensorSpec
from keras_encdec.models.log_probs import SPECIAL_IDS, id_tensor, sequence_log_probs
from keras_encdec.models.recurrent_layers import dense, uniform
from keras_encdec.models.translation_model import TranslationModel, register_model


class ZeroStates(Encoder):
    """Replaces the encoder in a model without a source: returns zeros as the decoder's first state.

    Args:
        state_spec: dict from str to TensorSpec, of the decoder.

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
        """Computes log p(y_t | y_<t) of each token, without gradients; call the model for gradients.

        Args:
            target: integer ids `(batch, time)`.

        Returns:
            float tensor `(batch, time)`, nats; 0 on padding.

        Raises:
            ValueError: for an array that does not hold such ids.
        """
        return self._quick_call({"target": id_tensor("target", target, self.target_words + SPECIAL_IDS)})

    @without_gradients
    def score(self, target: Tensor) -> Tensor:
        """Computes log p(y), including the end of sequence, without length normalization and without gradients.

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


@keras.saving.register_keras_serializable(package="keras_encdec")
class FeedForwardDecoder(Decoder):
    """Predicts each word from the n - 1 words before it, with rectified layers.

        h_t^(0) = [e(y_{t-n+1}); ..; e(y_{t-1})],   e(y_i) = 0 before the beginning, i < 1
        h_t^(l) = max(0, h_t^(l-1) W^(l) + b^(l)),   l = 1 .. L
        logits  = h_t^(L) W_hy + b_hy

    The state is the ids of these words.

    Args:
        vocabulary_size: int. Number of target ids, specials included.
        ngram_order: int. n, the number of words of an n-gram, including the predicted word.
        embedding_dim: int. Dimension of the word embeddings.
        hidden_units: tuple of int. Units of each rectified layer.
        dropout: float. Dropout rate of the inputs of each layer and of the output matrix. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.01`.

    Call arguments:
        previous: integer tensor `(batch, time)`: y_0 .. y_{T-1}, that is 0 and then the target without its last id.
        encoded: dict of tensors; a call does not read it.

    Returns:
        float tensor `(batch, time, vocabulary_size)`: logits.

    Reference:
        - Schwenk, 2007, "Continuous space language models"
        - Cho et al., 2014 (arXiv 1406.1078), section 4.1.2
        - Devlin et al., 2014, "Fast and Robust Neural Network Joint Models for Statistical Machine Translation",
          section 3.2: `word_products`
    """

    context_length: int

    def __init__(
        self,
        vocabulary_size: int,
        ngram_order: int,
        embedding_dim: int,
        hidden_units: tuple[int, ...],
        dropout: float = 0.0,
        initial_scale: float = 0.01,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.vocabulary_size = vocabulary_size
        self.context_length = ngram_order - 1
        self.ngram_order = ngram_order
        self.embedding_dim = embedding_dim
        self.hidden_units = tuple(hidden_units)
        # In low precision, a sum of rounded products differs from the rounded product of the whole context.
        if hidden_units and self.compute_dtype in ("float32", "float64"):
            self.context_sum_width = hidden_units[0]
        self.dropout = dropout
        self.initial_scale = initial_scale
        self.embedding = FactorizedEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer=uniform(initial_scale), dtype=policy
        )
        self.hidden_layers = [dense(units, initial_scale, policy, "relu") for units in self.hidden_units]
        self.output_matrix = dense(vocabulary_size, initial_scale, policy)
        self.input_dropout = Dropout(dropout, dtype=policy)

    def build(self, previous_shape: Shape | None = None, encoded_shape: dict[str, Shape] | None = None) -> None:
        self.embedding.build((None, None))
        widths = [self.context_length * self.embedding_dim, *self.hidden_units]
        for layer, width in zip([*self.hidden_layers, self.output_matrix], widths, strict=True):
            layer.build((None, width))
        self.built = True

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        return {"words": TensorSpec((self.context_length,), "int32")}

    @property
    def memory_spec(self) -> dict[str, TensorSpec]:
        return {}

    @property
    def output_weights(self) -> tuple[Tensor, Tensor]:
        return self.output_matrix.kernel, self.output_matrix.bias

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        return {"words": encoded["words"]}, {}

    def advance(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> State:
        newest = ops.expand_dims(ops.cast(previous, "int32"), -1)
        return {"words": ops.concatenate([state["words"][:, 1:], newest], axis=-1)}

    def features(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        embedded = self.embedding(state["words"])
        inputs = ops.reshape(embedded, (-1, self.context_length * self.embedding_dim))
        return self._through_layers(inputs, self.hidden_layers)

    def word_products(self, words: Tensor) -> Tensor:
        kernel = ops.convert_to_tensor(self.hidden_layers[0].kernel)
        kernels = ops.reshape(kernel, (self.context_length, self.embedding_dim, self.hidden_units[0]))
        return matmul(self.embedding(words)[None], kernels)

    def features_of_sums(self, sums: Tensor) -> Tensor:
        first, *others = self.hidden_layers
        return self._through_layers(first.activation(sums + first.bias), others)

    # Faster than the recurrence of the base class: all contexts of all sentences are rows of one product per layer.
    def call(self, previous: Tensor, encoded: Encoded) -> Tensor:
        steps = ops.shape(previous)[1]
        embedded = self.embedding(ops.pad(previous, [[0, 0], [self.context_length - 1, 0]]))
        contexts = [embedded[:, i : i + steps] for i in range(self.context_length)]
        return self.logits(self._through_layers(ops.concatenate(contexts, axis=-1), self.hidden_layers))

    def _through_layers(self, inputs: Tensor, layers: Sequence[keras.layers.Layer]) -> Tensor:
        for layer in layers:
            inputs = layer(self.input_dropout(inputs))
        return self.input_dropout(inputs)

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        symbols = {"target.E": self.embedding.embeddings}
        for number, layer in enumerate(self.hidden_layers, start=1):
            symbols.update({f"decoder.W.{number}": layer.kernel, f"decoder.b.{number}": layer.bias})
        symbols.update({"output.W_hy": self.output_matrix.kernel, "output.b_hy": self.output_matrix.bias})
        return {symbol: (variable, slice(None)) for symbol, variable in symbols.items()}

    def get_config(self) -> dict[str, object]:
        names = "vocabulary_size", "ngram_order", "embedding_dim", "dropout", "initial_scale"
        values = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **values, "hidden_units": list(self.hidden_units)}


@register_model("cslm")
@keras.saving.register_keras_serializable(package="keras_encdec")
class FeedForwardLanguageModel(LanguageModel):
    """Learns p(target) of sentences as a product over n-grams: a continuous-space language model (CSLM).

        h_t^(0) = [e(y_{t-n+1}); ..; e(y_{t-1})],   h_t^(l) = max(0, h_t^(l-1) W^(l) + b^(l))
        p(y_t | y_<t) = p(y_t | y_{t-n+1} .. y_{t-1}) = softmax(h_t^(L) W_hy + b_hy)

    The ids, the loss and the metrics are those of the other models:

        model.compile(published_optimizer())
        model.fit({"target": target}, batch_size=64)

    Args:
        words: int. Words in the shortlist, without the three special ids.
        **arguments: hyper-parameters of `FeedForwardLanguageModelConfig`, and arguments of `keras.Model`, such as
            `dtype`.

    Call arguments:
        inputs: dict with "target" `(batch, time)`, integer ids; or the ids alone.

    Returns:
        float32 tensor `(batch, time)`: token log-probabilities in nats, 0 on padding.

    Raises:
        ValueError: for a hyper-parameter of a wrong type or out of bounds.

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
