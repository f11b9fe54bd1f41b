"""How a hybrid model reads and spells words by their characters."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_encdec.backend.operations import tanh
from keras_encdec.backend.types import Encoded, Memory, Shape, State, Tensor
from keras_encdec.layers.dropout import Dropout
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.models.log_probs import SPECIAL_IDS, sequence_log_probs, token_log_probs
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.recurrent_layers import dense, recurrent_cell, uniform
from keras_encdec.text.vocabulary import MAX_WORD_LENGTH

# Low enough that its exp is 0, and finite, so that no gradient becomes NaN.
_IMPOSSIBLE = -1e9


@keras.saving.register_keras_serializable(package="keras_encdec")
class CharacterReader(keras.layers.Layer):
    """Computes the vector of a word from its characters, with stacked recurrent layers.

        k_t^(0) = e(z_t),   z the begin mark, the characters and the end mark of the word
        s_t^(l) = f(k_t^(l-1), s_{t-1}^(l)),   s_0^(l) = 0,   l = 1 .. L
        vector  = k_N^(L) P,   or k_N^(L) where it is as wide as the vector

    k is the hidden part of a cell's state s. Because the states start at zero, the vector of a word does not depend on
    the sentence, and is computed once for each distinct word.

    Args:
        characters: int. Number of characters in the vocabulary, without the three special ids and the begin mark.
        width: int. Width of the vector: that of a word embedding.
        units: int. Hidden units of each layer, and dimension of the characters' embeddings.
        cell: str. Name of a registered cell. Defaults to "lstm".
        layers: int. Defaults to `1`.
        dropout: float. Dropout rate of the inputs of each layer. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Call arguments:
        characters: integer tensor `(words, time)`: ids of characters closed by the end mark (2), then padding (0), see
            `keras_encdec.text.vocabulary.spelled`.

    Returns:
        float tensor `(words, width)`.

    Reference:
        - Luong and Manning, 2016 (arXiv 1604.00788), section 4.1
    """

    def __init__(
        self,
        characters: int,
        width: int,
        units: int,
        cell: str = "lstm",
        layers: int = 1,
        dropout: float = 0.0,
        initial_scale: float = 0.1,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.characters, self.width, self.units = characters, width, units
        self.cell, self.dropout, self.initial_scale = cell, dropout, initial_scale
        self.begin_mark = characters + SPECIAL_IDS
        policy = self.dtype_policy
        self.embedding = FactorizedEmbedding(
            self.begin_mark + 1, units, embeddings_initializer=uniform(initial_scale), dtype=policy
        )
        self.cells = [recurrent_cell(cell, units, initial_scale, policy) for _ in range(layers)]
        self.input_dropout = Dropout(dropout, dtype=policy)
        self.projection = None if units == width else dense(width, initial_scale, policy, use_bias=False)

    def build(self, characters_shape: Shape | None = None) -> None:
        self.embedding.build((None, None))
        for cell in self.cells:
            cell.build((None, self.units))
        if self.projection is not None:
            self.projection.build((None, self.units))
        self.built = True

    def call(self, characters: Tensor) -> Tensor:
        marks = ops.zeros_like(characters[:, :1]) + self.begin_mark
        ids = ops.concatenate([marks, characters], axis=1)
        mask = ops.not_equal(ids, 0)
        inputs, rows = self.embedding(ids), ops.shape(ids)[0]
        for cell in self.cells:
            inputs, last = cell.run(self.input_dropout(inputs), cell.initial_state(rows), mask)
        return last["hidden"] if self.projection is None else self.projection(last["hidden"])

    def read(self, groups: Sequence[Tensor], training: bool | None = None) -> Tensor:
        """Computes the vectors of words in groups of similar length.

        Args:
            groups: list of integer tensors `(words, time)`, of any widths.
            training: bool. Whether dropout is applied. Defaults to Keras's context.

        Returns:
            float tensor `(1 + words, width)`: zero, and then the vectors of all words, in the order of the groups.
        """
        vectors = [self(group, training=training) for group in groups if group.shape[0] != 0]
        return ops.concatenate([ops.zeros((1, self.width), self.compute_dtype), *vectors], axis=0)

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        """Returns the weights by the symbols of the equations, see `Encoder.symbols`."""
        symbols = {"source.characters.E": (self.embedding.embeddings, slice(None))}
        for layer, cell in enumerate(self.cells, start=1):
            symbols.update({f"reader.{name}.{layer}": where for name, where in cell.symbols().items()})
        if self.projection is not None:
            symbols["reader.P"] = self.projection.kernel, slice(None)
        return symbols

    def get_config(self) -> dict[str, object]:
        names = ("characters", "width", "units", "cell", "dropout", "initial_scale")
        values = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **values, "layers": len(self.cells)}


@keras.saving.register_keras_serializable(package="keras_encdec")
class CharacterDecoder(RecurrentDecoder):
    """Predicts each character of a word from the characters before it: a `RecurrentDecoder` over characters.

        k_t^(0) = e(z_{t-1}),   z_0 the begin mark
        s_t^(l) = f(k_t^(l-1), s_{t-1}^(l)),   l = 1 .. L
        logits  = k_t^(L) W_hy + b_hy

    The hidden state of the first layer starts from h', which the word decoder gives; all other states start at zero.
    The begin mark is the embedding of the end mark, which is read nowhere else. Padding has the probability 0.

    Args:
        vocabulary_size: int. Number of ids of characters, specials included.
        embedding_dim, units, cell, layers, dropout, initial_scale: see `RecurrentDecoder`.
    """

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        first = encoded["spelling"]
        rows = ops.shape(first)[0]
        state = {name: ops.zeros((rows, *spec.shape), first.dtype) for name, spec in self.state_spec.items()}
        return {**state, "hidden_1": first}, {}

    def logits(self, features: Tensor) -> Tensor:
        logits = super().logits(features)
        return ops.concatenate([ops.zeros_like(logits[..., :1]) + _IMPOSSIBLE, logits[..., 1:]], axis=-1)


@keras.saving.register_keras_serializable(package="keras_encdec")
class Speller(keras.layers.Layer):
    """Computes the probability of a word that the word decoder predicts as unknown, character by character.

        h'_t = tanh(c_t W_s + h_t W_t)        separate path
        h'_t = h~_t                           same path
        ln p(word) = sum over i of ln p(z_i | z_<i, h'_t),   z the characters of the word and the end mark

    A word has at most 50 characters; after the fiftieth, the end mark has the probability 1. The probabilities of all
    character sequences therefore sum to one.

    Args:
        characters: int. Number of characters in the vocabulary, without the three special ids.
        word_units: int. Width of h_t and h~_t.
        annotation_width: int. Width of c_t.
        units: int. Hidden units of each layer, and dimension of the characters' embeddings. The same path needs
            `word_units`.
        character_path: "separate" or "same". Defaults to "separate".
        cell, layers, dropout, initial_scale: see `RecurrentDecoder`.

    Call arguments:
        first: float tensor `(words, units)`: h', from `first_state`.
        characters: integer tensor `(words, time)`: see `CharacterReader`.

    Returns:
        float32 tensor `(words,)`, nats; 0 for a row of padding.

    Reference:
        - Luong and Manning, 2016 (arXiv 1604.00788), sections 4.2 and 4.3
    """

    def __init__(
        self,
        characters: int,
        word_units: int,
        annotation_width: int,
        units: int,
        character_path: str = "separate",
        cell: str = "lstm",
        layers: int = 1,
        dropout: float = 0.0,
        initial_scale: float = 0.1,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.characters, self.word_units, self.annotation_width = characters, word_units, annotation_width
        self.units, self.character_path, self.cell = units, character_path, cell
        self.dropout, self.initial_scale = dropout, initial_scale
        policy = self.dtype_policy
        self.decoder = CharacterDecoder(
            characters + SPECIAL_IDS,
            units,
            units,
            cell,
            layers,
            dropout=dropout,
            initial_scale=initial_scale,
            dtype=policy,
            name="character_decoder",
        )
        if self.is_separate:
            self.context_projection = dense(units, initial_scale, policy, use_bias=False)  # W_s
            self.state_projection = dense(units, initial_scale, policy, use_bias=False)  # W_t

    @property
    def is_separate(self) -> bool:
        """Whether h' is computed from c_t and h_t, with separate weights."""
        return self.character_path == "separate"

    def build(self, first_shape: Shape | None = None, characters_shape: Shape | None = None) -> None:
        self.decoder.build()
        if self.is_separate:
            self.context_projection.build((None, self.annotation_width))
            self.state_projection.build((None, self.word_units))
        self.built = True

    def first_state(self, hidden: Tensor, context: Tensor) -> Tensor:
        """Computes h' of the separate path.

        Args:
            hidden: float tensor `(words, word_units)`: h_t.
            context: float tensor `(words, annotation_width)`: c_t.

        Returns:
            float tensor `(words, units)`.
        """
        return tanh(self.context_projection(context) + self.state_projection(hidden))

    def call(self, first: Tensor, characters: Tensor) -> Tensor:
        characters = characters[:, :MAX_WORD_LENGTH]  # after this number of characters, the end mark is certain
        logits = self.decoder(self.decoder.previous_words(characters), {"spelling": first})
        return sequence_log_probs(token_log_probs(logits, characters))

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        """Returns the weights by the symbols of the equations, see `Decoder.symbols`."""
        prefixes = {"target": "target.characters", "output": "speller.output", "decoder": "speller"}
        symbols = {}
        for symbol, where in self.decoder.symbols().items():
            part, name = symbol.split(".", 1)
            symbols[f"{prefixes[part]}.{name}"] = where
        if self.is_separate:
            symbols["speller.W_s"] = self.context_projection.kernel, slice(None)
            symbols["speller.W_t"] = self.state_projection.kernel, slice(None)
        return symbols

    def get_config(self) -> dict[str, object]:
        names = (
            *("characters", "word_units", "annotation_width", "units"),
            *("character_path", "cell", "dropout", "initial_scale"),
        )
        values = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **values, "layers": len(self.decoder.cells)}
