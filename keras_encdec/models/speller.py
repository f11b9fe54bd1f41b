"""Spelling of target words by their characters."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.types import Encoded, Memory, Shape, State, Tensor
from keras_encdec.models.log_probs import SPECIAL_IDS, sequence_log_probs, token_log_probs
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.recurrent_layers import dense
from keras_encdec.text.spelling import LONGEST_WORD
from keras_encdec.text.vocabulary import END, UNKNOWN

# Low enough that its exp is 0, and finite, so that no gradient becomes NaN.
_IMPOSSIBLE = -1e9


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
        return ops.concatenate([ops.full_like(logits[..., :1], _IMPOSSIBLE), logits[..., 1:]], axis=-1)


def without_unspellable(log_probs: Tensor, previous: Tensor) -> Tensor:
    """Sets ln p of the unknown character, which cannot be written, and of the end of a word without characters to -inf.

    Args:
        log_probs: float tensor `(rows, characters)`: ln p of the next character.
        previous: integer tensor `(rows,)`: the previous character; 0 at the beginning of a word.
    """
    number = ops.arange(log_probs.shape[-1])[None]
    is_first = ops.equal(previous, 0)[:, None]
    forbidden = ops.logical_or(number == UNKNOWN, ops.logical_and(number == END, is_first))
    return ops.where(forbidden, ops.cast(-np.inf, log_probs.dtype), log_probs)


@keras.saving.register_keras_serializable(package="keras_encdec")
class Speller(keras.layers.Layer):
    """Gives the words that the word decoder predicts as unknown a probability, character by character.

        h'_t = tanh(c_t W_s + h_t W_t)        separate path
        h'_t = h~_t                           same path
        ln p(word) = sum over i of ln p(z_i | z_<i, h'_t),   z the characters of the word and the end mark

    At most 50 characters are predicted: after as many a word is over, with the probability 1. The probabilities of all
    spellings sum to one.

    Args:
        characters: int. Characters of the vocabulary, without the three special ids.
        word_units: int. Width of h_t and h~_t.
        annotation_width: int. Width of c_t.
        units: int. Hidden units of each layer, and dimension of the characters' embeddings. The same path needs those
            of the word decoder.
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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.characters, self.word_units, self.annotation_width = characters, word_units, annotation_width
        self.units, self.character_path, self.cell, self.layers = units, character_path, cell, layers
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
        """Whether h' is computed from c_t and h_t, by weights of its own."""
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
        return ops.tanh(self.context_projection(context) + self.state_projection(hidden))

    def call(self, first: Tensor, characters: Tensor) -> Tensor:
        characters = characters[:, :LONGEST_WORD]  # the end mark after as many is certain
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

    def get_config(self) -> dict[str, Any]:
        names = (
            *("characters", "word_units", "annotation_width", "units"),
            *("character_path", "cell", "layers", "dropout", "initial_scale"),
        )
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
