"""Decoder of stacked recurrent layers."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.types import Encoded, Memory, Shape, State, Tensor
from keras_encdec.layers.recurrent_cell import RecurrentCell
from keras_encdec.models.contract import Decoder, TensorSpec
from keras_encdec.models.recurrent_layers import RecurrentLayers, dense, recurrent_cell
from keras_encdec.models.word_tables import looked_up, tables_in_use
from keras_encdec.text.vocabulary import END


@keras.saving.register_keras_serializable(package="keras_encdec")
class RecurrentDecoder(RecurrentLayers, Decoder):
    """Predicts each target word from the words before it, with stacked recurrent layers.

        h_t^(0) = e(y_{t-1}),   y_0 the end of sequence, which marks that the source is over
        s_t^(l) = f(h_t^(l-1), s_{t-1}^(l)),   l = 1 .. L
        logits  = h_t^(L) W_hy + b_hy

    s is the state of a cell: h and c of an LSTM, h of the other cells. The encoder gives the first states s_0^(l). With
    a summary c of the source they are s_0^(l) = tanh(c V^(l) + b_V^(l)), and the first layer also reads c at every
    step.

    Args:
        vocabulary_size: int. Number of target ids, specials included.
        embedding_dim: int. Dimension of the word embeddings.
        units: int. Number of hidden units of each layer.
        cell: str. Name of a registered cell, such as "lstm", "gru" or "rnn". Defaults to "lstm".
        layers: int. Defaults to `1`.
        summary: bool. Whether the encoder gives a summary c of the source instead of the first states. Defaults to
            `False`.
        dropout: float. Dropout rate of the inputs of each layer and of the output matrix. Defaults to `0.0`.
        initial_scale: float. Bound of the initial weights, which are uniform. Defaults to `0.1`.

    Call arguments:
        previous: integer tensor `(batch, time)`: y_0 .. y_{T-1}, that is 0 and then the target without its
            last id. 0 is read as the end of sequence.
        encoded: dict of float tensors, from `RecurrentEncoder`.

    Returns:
        float tensor `(batch, time, vocabulary_size)`: logits.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2, algorithm 3
        - Cho et al., 2014 (arXiv 1406.1078), section 2.2: the summary at every step
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        cell: str = "lstm",
        layers: int = 1,
        summary: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(vocabulary_size, embedding_dim, units, cell, layers, summary, **kwargs)
        policy, initial_scale = self.dtype_policy, self.initial_scale
        self.cells = [recurrent_cell(cell, units, initial_scale, policy) for _ in range(layers)]
        self.output_matrix = dense(vocabulary_size, initial_scale, policy)
        if summary:
            state_size = sum(self.cells[0].state_widths.values())
            self.first_states = [dense(state_size, initial_scale, policy, "tanh") for _ in range(layers)]
            # Projects the summary for the first layer, which already has a bias. The name stays: saved models contain
            # it.
            self.context = dense(self.cells[0].gates * units, initial_scale, policy, use_bias=False)

    def build(self, previous_shape: Shape | None = None, encoded_shape: dict[str, Shape] | None = None) -> None:
        self.embedding.build((None, None))
        for cell, width in zip(self.cells, [self.embedding_dim] + [self.units] * (len(self.cells) - 1), strict=True):
            cell.build((None, width))
        self.output_matrix.build((None, None, self.units))
        if self.summary:
            for layer in (*self.first_states, self.context):
                layer.build((None, self.units))
        self.built = True

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        return self.layer_states_spec(self.cells[0].state_widths)

    @property
    def memory_spec(self) -> dict[str, TensorSpec]:
        return {"projected_summary": TensorSpec((self.context.units,))} if self.summary else {}

    @property
    def output_weights(self) -> tuple[Tensor, Tensor]:
        return self.output_matrix.kernel, self.output_matrix.bias

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        state, widths = {}, self.cells[0].state_widths
        if not self.summary:
            return {name: encoded[name] for name in self.layer_states_spec(widths)}, {}
        for number, first in enumerate(self.first_states, start=1):
            both, start = first(encoded["summary"]), 0
            for part, width in widths.items():
                state[f"{part}_{number}"] = both[:, start : start + width]
                start += width
        return state, {"projected_summary": self.context(encoded["summary"])}

    def advance(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> State:
        rows = ops.shape(previous)[0]
        projected_summary = self.take_memory(memory["projected_summary"], rows, source_of_row) if self.summary else 0
        return self.one_step(previous, state, projected_summary)

    def features(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        return self.input_dropout(state[f"hidden_{len(self.cells)}"])

    def weight_classes(self) -> dict[str, list[keras.Variable]]:
        classes = {f"decoder layer {number}": list(cell.weights) for number, cell in enumerate(self.cells, start=1)}
        if self.summary:
            for weights, first in zip(classes.values(), self.first_states, strict=True):
                weights.extend(first.weights)
            classes["decoder layer 1"].extend(self.context.weights)
        return classes

    # Faster than in the base class: runs layer by layer, all steps at once.
    def call(self, previous: Tensor, encoded: Encoded) -> Tensor:
        state, memory = self.start(encoded)
        projected_summary = ops.expand_dims(memory["projected_summary"], 1) if self.summary else 0
        hidden = self.all_steps(previous, state, projected_summary)
        return self.logits(self.features(previous, {f"hidden_{len(self.cells)}": hidden}, memory))

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        symbols = {
            "target.E": (self.embedding.embeddings, slice(None)),
            "output.W_hy": (self.output_matrix.kernel, slice(None)),
            "output.b_hy": (self.output_matrix.bias, slice(None)),
        }
        for layer, cell in enumerate(self.cells, start=1):
            symbols.update({f"decoder.{name}.{layer}": where for name, where in cell.symbols().items()})
            if self.summary:
                first = self.first_states[layer - 1]
                symbols[f"decoder.V.{layer}"] = first.kernel, slice(None)
                symbols[f"decoder.b_V.{layer}"] = first.bias, slice(None)
        if self.summary:
            columns = self.cells[0].columns("C", self.context.kernel)
            symbols.update({f"decoder.{name}.1": where for name, where in columns})
        return symbols

    @property
    def first_cells(self) -> list[RecurrentCell]:
        return self.cells[:1]

    # 0 is read as the end of sequence.
    def embedded(self, previous: Tensor) -> Tensor:
        return self.embedding(ops.where(ops.equal(previous, 0), END, previous))

    def projected(self, previous: Tensor) -> Tensor:
        """Projects the previous words for the first layer, `(..., gates * units)`."""
        if tables := tables_in_use(self):
            return looked_up(tables[0], previous)
        return self.cells[0].project_inputs(self.input_dropout(self.embedded(previous)))

    def one_step(self, previous: Tensor, state: State, addend: Tensor | int) -> State:
        """Computes the states of all layers after one step.

        Args:
            previous: integer tensor `(batch,)`: the words before the step.
            state: dict of tensors: the states before the step.
            addend: float tensor, added to the projected inputs of the first layer; 0 for nothing.
        """
        new: State = {}
        projected = self.projected(previous) + addend
        for number, cell in enumerate(self.cells, start=1):
            if number > 1:
                projected = cell.project_inputs(self.input_dropout(new[f"hidden_{number - 1}"]))
            states = cell.step(projected, self._state_of_layer(number, state), cell.parameters())
            new.update({f"{part}_{number}": tensor for part, tensor in states.items()})
        return new

    def all_steps(self, previous: Tensor, state: State, addend: Tensor | int) -> Tensor:
        """Computes h_t^(L) of all steps, `(batch, time, units)`; see `one_step`."""
        first, *others = self.cells
        start = self._state_of_layer(1, state)
        if tables_in_use(self) or self.summary:
            hidden, _ = first.run_projected(self.projected(previous) + addend, start)
        else:
            hidden, _ = first.run(self.input_dropout(self.embedded(previous)), start)
        for number, cell in enumerate(others, start=2):
            hidden, _ = cell.run(self.input_dropout(hidden), self._state_of_layer(number, state))
        return hidden

    def _state_of_layer(self, number: int, state: State) -> State:
        return {part: state[f"{part}_{number}"] for part in self.cells[0].state_widths}
