"""Vectors of words that are read character by character."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_encdec.backend.types import Shape, Tensor
from keras_encdec.layers.dropout import Dropout
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.recurrence import run_recurrence
from keras_encdec.models.log_probs import SPECIAL_IDS
from keras_encdec.models.recurrent_layers import dense, recurrent_cell, uniform


@keras.saving.register_keras_serializable(package="keras_encdec")
class CharacterReader(keras.layers.Layer):
    """Computes the vector of a word from its characters, with stacked recurrent layers.

        k_t^(0) = e(z_t),   z the begin mark, the characters and the end mark of the word
        s_t^(l) = f(k_t^(l-1), s_{t-1}^(l)),   s_0^(l) = 0,   l = 1 .. L
        vector  = k_N^(L) P,   or k_N^(L) where it is as wide as the vector

    k is the hidden part of a cell's state s. Because the states start at zero, the vector of a word does not depend on
    the sentence, and is computed once for each distinct word.

    Args:
        characters: int. Characters of the vocabulary, without the three special ids and the begin mark.
        width: int. Width of the vector: that of a word embedding.
        units: int. Hidden units of each layer, and dimension of the characters' embeddings.
        cell: str. Name of a registered cell. Defaults to "lstm".
        layers: int. Defaults to `1`.
        dropout: float. Share of the inputs of each layer that are set to zero in training. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Call arguments:
        characters: integer tensor `(words, time)`: ids of characters closed by the end mark (2), then padding (0), see
            `keras_encdec.text.spelling.spelled`.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.characters, self.width, self.units = characters, width, units
        self.cell, self.layers, self.dropout, self.initial_scale = cell, layers, dropout, initial_scale
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
        marks = ops.full_like(characters[:, :1], self.begin_mark)
        ids = ops.concatenate([marks, characters], axis=1)
        mask = ops.not_equal(ids, 0)
        inputs, rows = self.embedding(ids), ops.shape(ids)[0]
        for cell in self.cells:
            first = {part: ops.zeros((rows, width), inputs.dtype) for part, width in cell.state_widths.items()}
            projected = cell.project_inputs(self.input_dropout(inputs))
            inputs = run_recurrence(cell.step, projected, first, cell.parameters(), mask)["hidden"]
        last = inputs[:, -1]
        return last if self.projection is None else self.projection(last)

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

    def get_config(self) -> dict[str, Any]:
        names = ("characters", "width", "units", "cell", "layers", "dropout", "initial_scale")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
