"""The encoder of stacked recurrent layers, in one direction or in both."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import ops

from keras_encdec.backend.types import Encoded, Shape, State, Tensor
from keras_encdec.layers.recurrent_cell import RecurrentCell
from keras_encdec.models.characters import CharacterReader
from keras_encdec.models.contract import Encoder, TensorSpec
from keras_encdec.models.recurrent_layers import RecurrentLayers, dense, recurrent_cell
from keras_encdec.models.word_tables import looked_up, tables_in_use


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentEncoder(RecurrentLayers, Encoder):
    """Reads a source with stacked recurrent layers, in one direction or in both.

        h_t^(0) = e(x_t)
        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   s_0^(l) = 0,   l = 1 .. L

    s is the state of a cell: h and c of an LSTM, h of the other cells. The decoder gets the states after the last id,
    s_N^(l), of every layer; or a summary of the last layer, c = tanh(h_N^(L) V + b_V).

    With two directions, each layer has a second cell that reads from right to left. The next layer reads the states of
    both directions, concatenated ("concat") or added ("sum"). With either choice, the decoder gets a projection of the
    last states of both directions of each layer, [h h'] P = h P_1 + h' P_2. The c of an LSTM is projected in the same
    way.

    Padding is skipped. A source that is all padding leaves the states at zero.

    A decoder with attention also gets the annotations, h_t^(L) of every source position, with both directions combined
    as between layers. They are in the order of the source, even if the encoder reads it in reverse.

    Args:
        vocabulary_size: int. Number of source ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units of each layer and direction.
        cell: str. Name of a registered cell, such as "lstm", "gru" or "rnn". Defaults to "lstm".
        layers: int. Defaults to `1`.
        bidirectional: "none", "concat" or "sum". Defaults to "none": from left to right only.
        reverse_source: bool. Whether the words are read in reverse order; the end of sequence stays last. Defaults to
            `False`.
        summary: bool. Whether the decoder gets the summary c instead of all states. Defaults to `False`.
        annotations: bool. Whether the decoder also gets the annotations. Defaults to `False`.
        reader: dict. Arguments of `CharacterReader`, except `width`. Defaults to `None`: the encoder reads words
            outside the shortlist as the unknown word.
        dropout: float. Dropout rate of the inputs of each layer. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Call arguments:
        source: integer tensor `(batch, time)`: ids closed by the end of sequence (2), then padding (0).
        rare: float tensor `(1 + words, embedding_dim)`, from `CharacterReader.read`: the vectors of rare words, whose
            ids follow those of the shortlist. Defaults to `None`: there are no such ids.

    Returns:
        dict of float tensors `(batch, units)`: for each layer, counted from 1, "hidden_1" and, for an LSTM, "cell_1";
        or only "summary". With annotations also "annotations" `(batch, time, annotation_width)`, zero on padding, and
        "mask" `(batch, time)`, boolean.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2, algorithm 3
        - Sutskever et al., 2014 (arXiv 1409.3215): reversed sources
        - Zaremba et al., 2014 (arXiv 1409.2329): dropout of the connections that are not recurrent
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        cell: str = "lstm",
        layers: int = 1,
        bidirectional: str = "none",
        reverse_source: bool = False,
        summary: bool = False,
        annotations: bool = False,
        reader: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, units, cell, layers, summary, **kwargs)
        self.reader_arguments = reader
        self.character_reader = None
        policy, initial_scale = self.dtype_policy, self.initial_scale
        if reader is not None:
            self.character_reader = CharacterReader(width=embedding_dim, **reader, dtype=policy, name="reader")
        self.bidirectional = bidirectional
        self.reverse_source = reverse_source
        self.annotations = annotations
        directions = 1 if bidirectional == "none" else 2
        self.cells = [
            [recurrent_cell(cell, units, initial_scale, policy) for _ in range(directions)] for _ in range(layers)
        ]
        parts = len(self.cells[0][0].state_widths)
        if summary:
            self.projections = [[dense(units, initial_scale, policy, "tanh")]]
        elif directions > 1:
            self.projections = [[dense(units, initial_scale, policy) for _ in range(parts)] for _ in range(layers)]
        else:
            self.projections = []

    def build(self, source_shape: Shape | None = None, rare_shape: Shape | None = None) -> None:
        self.embedding.build((None, None))
        if self.reader is not None:
            self.reader.build()
        directions, width = len(self.cells[0]), self.embedding_dim
        for cells in self.cells:
            for cell in cells:
                cell.build((None, width))
            width = self.annotation_width
        for projections in self.projections:
            for projection in projections:
                projection.build((None, directions * self.units))
        self.built = True

    @property
    def reader(self) -> CharacterReader | None:
        return self.character_reader

    @property
    def annotation_width(self) -> int:
        """Width of the outputs of a layer, and of the annotations."""
        return self.units * (2 if self.bidirectional == "concat" else 1)

    @property
    def encoded_spec(self) -> dict[str, TensorSpec]:
        states = self.layer_states_spec(self.cells[0][0].state_widths)
        spec = {"summary": TensorSpec((self.units,))} if self.summary else states
        if self.annotations:
            spec["annotations"] = TensorSpec((None, self.annotation_width), time_axis=1)
            spec["mask"] = TensorSpec((None,), "bool", time_axis=1)
        return spec

    def call(self, source: Tensor, rare: Tensor | None = None) -> Encoded:
        mask = ops.not_equal(source, 0)
        words = words_reversed(source, mask) if self.reverse_source else source
        tables, first = tables_in_use(self), self.cells[0][0].initial_state(ops.shape(source)[0])
        inputs: Tensor = None if tables else self._embedded(words, rare)
        encoded = {}
        for number, cells in enumerate(self.cells, start=1):
            if number == 1 and tables:
                projected = [looked_up(table, in_direction(words, i)) for i, table in enumerate(tables)]
                outputs, last = _run_layer([cell.run_projected for cell in cells], projected, first, mask)
            else:
                inputs = self.input_dropout(inputs)
                read = [in_direction(inputs, i) for i in range(len(cells))]
                outputs, last = _run_layer([cell.run for cell in cells], read, first, mask)
            if self.bidirectional != "none" and not self.summary:
                projections = zip(last.items(), self.projections[number - 1], strict=True)
                last = {part: projection(state) for (part, state), projection in projections}
            encoded.update({f"{part}_{number}": state for part, state in last.items()})
            inputs = ops.concatenate(outputs, axis=-1) if self.bidirectional == "concat" else sum(outputs)
        if self.summary:
            encoded = {"summary": self.projections[0][0](last["hidden"])}
        if self.annotations:
            inputs = inputs * ops.expand_dims(ops.cast(mask, inputs.dtype), -1)
            encoded["annotations"] = words_reversed(inputs, mask) if self.reverse_source else inputs
            encoded["mask"] = mask
        return encoded

    def _embedded(self, source: Tensor, rare: Tensor | None) -> Tensor:
        if rare is None:
            return self.embedding(source)
        # One of the two vectors is always zero: the embedding of id 0, or row 0 of the rare words.
        is_rare = source >= self.vocabulary_size
        rows = ops.where(is_rare, source - (self.vocabulary_size - 1), 0)
        return self.embedding(ops.where(is_rare, 0, source)) + ops.take(rare, rows, axis=0)

    @property
    def first_cells(self) -> list[RecurrentCell]:
        return self.cells[0]

    # Tables have no rows for words outside the shortlist, whose vectors are computed from their characters.
    @property
    def word_table_size(self) -> int:
        return super().word_table_size if self.reader is None else 0

    def weight_classes(self) -> dict[str, list[keras.Variable]]:
        layers = [[*cells] for cells in self.cells]
        for layer, projections in zip(layers[-len(self.projections) :], self.projections, strict=False):
            layer.extend(projections)
        classes = {
            f"encoder layer {number}": [weight for part in layer for weight in part.weights]
            for number, layer in enumerate(layers, start=1)
        }
        return classes if self.reader is None else {**classes, "character reader": self.reader.weights}

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        symbols = {"source.E": (self.embedding.embeddings, slice(None))}
        for layer, cells in enumerate(self.cells, start=1):
            for cell, direction in zip(cells, ("", ".left"), strict=False):
                for name, where in cell.symbols().items():
                    symbols[f"encoder.{name}.{layer}{direction}"] = where
        for layer, projections in enumerate(self.projections, start=1):
            parts = ["V"] if self.summary else [f"P_{part[0]}.{layer}" for part in self.cells[0][0].state_widths]
            for part, projection in zip(parts, projections, strict=True):
                symbols[f"encoder.{part}"] = projection.kernel, slice(None)
                symbols[f"encoder.b_{part}"] = projection.bias, slice(None)
        return {**symbols, **self.reader.symbols()} if self.reader is not None else symbols

    def get_config(self) -> dict[str, object]:
        names = "bidirectional", "reverse_source", "annotations"
        reader = {} if self.reader_arguments is None else {"reader": self.reader_arguments}
        return {**super().get_config(), **{name: getattr(self, name) for name in names}, **reader}


def _run_layer(
    runs: Iterable[Callable[[Tensor, State, Tensor], tuple[Tensor, State]]],
    inputs: Iterable[Tensor],
    first: State,
    mask: Tensor,
) -> tuple[list[Tensor], State]:
    """Returns the outputs of each cell of a layer, and the last states of all cells, side by side.

    Args:
        runs: `run` or `run_projected` of each cell. The second cell reads from right to left.
        inputs: float tensor `(batch, time, ...)` for each cell, in the order in which it reads.
        first: dict of tensors: the state of each cell before the first step, all zeros.
        mask: boolean tensor `(batch, time)`, in the order of the source.
    """
    outputs, lasts = [], []
    for direction, (run, read) in enumerate(zip(runs, inputs, strict=True)):
        # From right to left, padding comes first, and leaves the state at zero.
        states, last = run(read, first, in_direction(mask, direction))
        outputs.append(in_direction(states, direction))
        lasts.append(last)
    return outputs, {part: ops.concatenate([last[part] for last in lasts], axis=-1) for part in first}


def in_direction(tensor: Tensor, direction: int) -> Tensor:
    """Reverses the time axis, `(batch, time, ...)`, if `direction` is 1: the cell then reads from right to left."""
    return ops.flip(tensor, axis=1) if direction else tensor


def words_reversed(tensor: Tensor, mask: Tensor) -> Tensor:
    """Reverses the order of the words of each source; the end of sequence and padding keep their positions.

    Args:
        tensor: tensor `(batch, time, ...)`: ids closed by the end of sequence, then padding; or one vector per id.
        mask: boolean tensor `(batch, time)`, false on padding.

    Returns:
        tensor of the same shape.
    """
    words = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True) - 1
    indices = ops.expand_dims(ops.arange(ops.shape(mask)[1], dtype="int32"), 0)
    indices = ops.where(indices < words, words - 1 - indices, indices)
    return ops.take_along_axis(tensor, ops.reshape(indices, (*ops.shape(mask), *[1] * (len(tensor.shape) - 2))), axis=1)
