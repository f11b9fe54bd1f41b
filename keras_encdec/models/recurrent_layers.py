"""Base class of the encoder and the decoder of stacked recurrent layers, and how their parts are initialized."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.types import Tensor
from keras_encdec.layers.dense import Dense
from keras_encdec.layers.dropout import Dropout
from keras_encdec.layers.factorized_embedding import FactorizedEmbedding
from keras_encdec.layers.recurrent_cell import RecurrentCell, recurrent_cell_class
from keras_encdec.models.contract import TensorSpec


class RecurrentLayers(keras.layers.Layer):
    """Base of `RecurrentEncoder` and `RecurrentDecoder`: the sizes, the embedding and the dropout of inputs.

    Args:
        vocabulary_size: int. Number of ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units of each layer.
        cell: str. Name of a registered cell, such as "lstm", "gru" or "rnn". Defaults to "lstm".
        layers: int. Defaults to `1`.
        summary: bool. Whether the decoder gets a summary of the source instead of states. Defaults to `False`.
        dropout: float. Dropout rate of the inputs of each layer. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Raises:
        ValueError: for fewer than one layer.
    """

    #: One for each layer, from the first: a cell, or in the encoder a list with a cell for each direction.
    cells: list[Any]

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        cell: str = "lstm",
        layers: int = 1,
        summary: bool = False,
        dropout: float = 0.0,
        initial_scale: float = 0.1,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        if layers < 1:
            raise ValueError(f"found layers={layers}, expected 1 or more")
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.units = units
        self.cell = cell
        self.summary = summary
        self.dropout = dropout
        self.initial_scale = initial_scale
        self.embedding = FactorizedEmbedding(
            vocabulary_size, embedding_dim, embeddings_initializer=uniform(initial_scale), dtype=self.dtype_policy
        )
        self.input_dropout = Dropout(dropout, dtype=self.dtype_policy)

    def layer_states_spec(self, widths: dict[str, int]) -> dict[str, TensorSpec]:
        """Describes the states of all layers: "hidden_1", for an LSTM also "cell_1", "hidden_2" and so on.

        Args:
            widths: dict from the parts of a cell's state to their widths, see `RecurrentCell.state_widths`.
        """
        return {
            f"{part}_{layer}": TensorSpec((width,))
            for layer in range(1, len(self.cells) + 1)
            for part, width in widths.items()
        }

    @property
    def first_cells(self) -> list[RecurrentCell]:
        """The cells that read the words: one for each direction."""
        raise NotImplementedError

    def embedded(self, words: Tensor) -> Tensor:
        """Looks up the embeddings of words."""
        return self.embedding(words)

    def word_layers(self) -> list[keras.layers.Layer]:
        return [self.embedding, *self.first_cells]

    @property
    def word_table_size(self) -> int:
        return self.vocabulary_size * sum(cell.gates * cell.units for cell in self.first_cells)

    def word_tables(self) -> list[Tensor]:
        """Computes the projected inputs of each word, `(vocabulary_size, gates * units)`, for each of `first_cells`."""
        embedded = self.embedded(ops.arange(self.vocabulary_size, dtype="int32"))
        return [cell.project_inputs(embedded) for cell in self.first_cells]

    def get_config(self) -> dict[str, object]:
        names = "vocabulary_size", "embedding_dim", "units", "cell", "summary", "dropout", "initial_scale"
        values = {name: getattr(self, name) for name in names}
        return {**super().get_config(), **values, "layers": len(self.cells)}


def recurrent_cell(cell: str, units: int, initial_scale: float, dtype: keras.DTypePolicy) -> RecurrentCell:
    """Makes a cell with uniform initial weights.

    Args:
        cell: str. Name of a registered cell, such as "lstm".
        units: int. Number of hidden units.
        initial_scale: float. Bound of the initial weights.
        dtype: the dtype policy.

    Raises:
        ValueError: for a cell that is not registered.
    """
    return recurrent_cell_class(cell)(
        units, kernel_initializer=uniform(initial_scale), recurrent_initializer=uniform(initial_scale), dtype=dtype
    )


def dense(
    units: int, initial_scale: float, dtype: keras.DTypePolicy, activation: str | None = None, use_bias: bool = True
) -> Dense:
    """Makes a Dense layer with uniform initial weights."""
    return Dense(units, activation, use_bias, kernel_initializer=uniform(initial_scale), dtype=dtype)


def uniform(initial_scale: float) -> keras.initializers.Initializer:
    """Returns a uniform distribution between minus and plus the bound."""
    return keras.initializers.RandomUniform(-initial_scale, initial_scale)
