"""The decoder of stacked recurrent layers with attention."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.operations import as_tensor, matmul, tanh, with_table_rows
from keras_encdec.backend.types import Encoded, Memory, Shape, State, Tensor
from keras_encdec.layers.attention import attention_class
from keras_encdec.layers.attention_step import InputFeedingStep, WithoutGradient
from keras_encdec.layers.recurrence import RecurrentStep, run_recurrence
from keras_encdec.layers.recurrent_cell import RecurrentCell
from keras_encdec.models.characters import Speller
from keras_encdec.models.contract import TensorSpec
from keras_encdec.models.recurrent_decoder import RecurrentDecoder
from keras_encdec.models.recurrent_layers import dense, uniform


@keras.saving.register_keras_serializable(package="keras_encdec")
class AttentionDecoder(RecurrentDecoder):
    """Predicts each target word from the words before it and from the source positions that it attends to.

        h_t    = h_t^(L) of the stacked layers, see `RecurrentDecoder`
        a_t    = attention weights between h_t and the annotations H_s, see `Attention`
        c_t    = sum over s of a_t(s) H_s
        h~_t   = tanh(c_t W_c + h_t W_h)
        logits = h~_t W_hy + b_hy

    With input feeding the first layer reads [e(y_{t-1}), h~_{t-1}], h~_0 = 0.

    The memory holds for each source the keys, which h_t is compared with, and the values H_s W_c, so that both matrices
    are applied once per source. c_t W_c is the weighted average of the values.

    Args:
        vocabulary_size, embedding_dim, units, cell, layers, summary, dropout, initial_scale: see `RecurrentDecoder`.
        annotation_width: int. Width of the annotations.
        attention: str. Name of a registered kind: "global", "local_m" or "local_p". Defaults to "global".
        attention_score: "dot", "general" or "concat", see `Attention`. Defaults to "general".
        attention_arguments: dict. Further arguments of the attention layer: "score_units", "half_width". Defaults to no
            further arguments.
        input_feeding: bool. Whether the first layer also reads h~_{t-1}. Defaults to `True`.
        speller: dict. Arguments of `Speller`, except `word_units` and `annotation_width`, which the decoder sets.
            Defaults to `None`: the decoder does not spell unknown words.

    Call arguments:
        previous: integer tensor `(batch, time)`, see `RecurrentDecoder`.
        encoded: dict of tensors, from a `RecurrentEncoder` with annotations.
        spelled_positions: int32 tensor `(words,)`, the positions, row * time + column, of the words to spell. Defaults
            to `None`.

    Returns:
        float tensor `(batch, time, vocabulary_size)`: logits. With `spelled_positions`, a tuple of the logits and
        the speller's first states for these words, `(words, speller.units)`.

    Reference:
        - Luong et al., 2015 (arXiv 1508.04025), section 3; Luong, 2016, Neural Machine Translation (thesis), chapter 4
    """

    has_attention = True

    def __init__(
        self,
        *args: Any,
        annotation_width: int,
        attention: str = "global",
        attention_score: str = "general",
        attention_arguments: dict[str, Any] | None = None,
        input_feeding: bool = True,
        speller: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.annotation_width = annotation_width
        self.attention = attention
        self.attention_score = attention_score
        self.attention_arguments = dict(attention_arguments or {})
        self.input_feeding = input_feeding
        policy, initial_scale = self.dtype_policy, self.initial_scale
        self.attention_layer = attention_class(attention)(
            attention_score, kernel_initializer=uniform(initial_scale), dtype=policy, **self.attention_arguments
        )
        self.context_projection = dense(self.units, initial_scale, policy, use_bias=False)  # W_c
        self.state_projection = dense(self.units, initial_scale, policy, use_bias=False)  # W_h
        if input_feeding:
            # Projects h~_{t-1} for the first layer. The first layer already has a bias.
            self.feeding = dense(self.cells[0].gates * self.units, initial_scale, policy, use_bias=False)
        self.speller_arguments = speller
        self.word_speller = None
        if speller is not None:
            self.word_speller = Speller(
                word_units=self.units, annotation_width=annotation_width, **speller, dtype=policy, name="speller"
            )

    def build(self, previous_shape: Shape | None = None, encoded_shape: dict[str, Shape] | None = None) -> None:
        super().build()
        self.attention_layer.build((None, None, self.units), (None, None, self.annotation_width))
        self.context_projection.build((None, None, self.annotation_width))
        self.state_projection.build((None, self.units))
        if self.input_feeding:
            self.feeding.build((None, self.units))
        if self.speller is not None:
            self.speller.build()

    @property
    def speller(self) -> Speller | None:
        return self.word_speller

    @property
    def state_spec(self) -> dict[str, TensorSpec]:
        spec = {
            **super().state_spec,
            "attentional": TensorSpec((self.units,)),
            "attention": TensorSpec((None,), self.attention_layer.weights_dtype, time_axis=1),
        }
        if self.attention_layer.needs_positions:
            spec["position"] = TensorSpec((1,), "int32")
        return spec

    @property
    def memory_spec(self) -> dict[str, TensorSpec]:
        key_width = self.attention_layer.key_width(self.units, self.annotation_width)
        spec = {
            **super().memory_spec,
            "keys": TensorSpec((None, key_width), time_axis=1),
            "values": TensorSpec((None, self.units), time_axis=1),
            "mask": TensorSpec((None,), "bool", time_axis=1),
        }
        if self.speller is not None and self.speller.is_separate:
            spec["annotations"] = TensorSpec((None, self.annotation_width), time_axis=1)
        return spec

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        annotations, mask = encoded["annotations"], encoded["mask"]
        state, memory = super().start(encoded)
        rows = ops.shape(mask)[0]
        state["attentional"] = ops.zeros((rows, self.units), annotations.dtype)
        state["attention"] = ops.zeros_like(mask, dtype=self.attention_layer.weights_dtype)
        if self.attention_layer.needs_positions:
            state["position"] = ops.zeros((rows, 1), "int32")
        memory["keys"] = self.attention_layer.keys(annotations)
        memory["values"] = self.context_projection(annotations)
        memory["mask"] = mask
        if "annotations" in self.memory_spec:
            memory["annotations"] = annotations
        return state, memory

    def advance(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> State:
        rows = ops.shape(previous)[0]
        addend = self.take_memory(memory["projected_summary"], rows, source_of_row) if self.summary else 0
        if self.input_feeding:
            addend = addend + self.feeding(self.input_dropout(state["attentional"]))
        new = self.one_step(previous, state, addend)
        return {**new, **self._attend_one_step(new[self._last_hidden], state, memory, source_of_row)}

    def features(self, previous: Tensor, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        return self.input_dropout(state["attentional"])

    def call(
        self, previous: Tensor, encoded: Encoded, spelled_positions: Tensor | None = None, training: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        state, memory = self.start(encoded)
        addend = ops.expand_dims(memory["projected_summary"], 1) if self.summary else 0
        if self.input_feeding:
            states = self._fed(previous, state, memory, addend, training)
        else:
            states = {self._last_hidden: self.all_steps(previous, state, addend)}
            steps = ops.arange(ops.shape(previous)[1], dtype="int32")
            positions = ops.broadcast_to(steps, ops.shape(previous))
            attended = self._attend_all_steps(states[self._last_hidden], memory, positions)
            states["attentional"], states["attention"] = attended
        logits = self.logits(self.input_dropout(states["attentional"]))
        return (
            logits if spelled_positions is None else (logits, self._spelling_states(states, memory, spelled_positions))
        )

    def _spelling_states(self, states: State, memory: Memory, spelled_positions: Tensor) -> Tensor:
        """Computes the speller's first state at each position in `spelled_positions`: `(words, speller.units)`."""

        def rows(table: Tensor) -> Tensor:
            return ops.take(ops.reshape(table, (-1, table.shape[-1])), spelled_positions, axis=0)

        assert self.speller is not None, "only a model that spells words has states of its speller"
        if not self.speller.is_separate:
            return rows(states["attentional"])
        annotations = memory["annotations"]
        context = matmul(ops.cast(states["attention"], annotations.dtype), annotations)
        return self.speller.first_state(rows(states[self._last_hidden]), rows(context))

    def spelling_state(self, state: State, memory: Memory, source_of_row: Tensor | None = None) -> Tensor:
        assert self.speller is not None, "only a model that spells words has states of its speller"
        if not self.speller.is_separate:
            return state["attentional"]
        weights = state["attention"]
        annotations = self.take_memory(memory["annotations"], ops.shape(weights)[0], source_of_row)
        weights = ops.expand_dims(ops.cast(weights, annotations.dtype), 1)
        context = ops.squeeze(matmul(weights, annotations), 1)
        return self.speller.first_state(state[self._last_hidden], context)

    def weight_classes(self) -> dict[str, list[keras.Variable]]:
        classes = super().weight_classes()
        if self.input_feeding:
            classes["decoder layer 1"].extend(self.feeding.weights)
        layers = self.attention_layer, self.context_projection, self.state_projection
        classes["attention"] = [weight for layer in layers for weight in layer.weights]
        return classes if self.speller is None else {**classes, "speller": self.speller.weights}

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        variables = {
            **self.attention_layer.symbols(),
            "W_c": self.context_projection.kernel,
            "W_h": self.state_projection.kernel,
        }
        symbols = {f"attention.{name}": (variable, slice(None)) for name, variable in variables.items()}
        if self.input_feeding:
            columns = self.cells[0].columns("F", self.feeding.kernel)
            symbols.update({f"decoder.{name}.1": where for name, where in columns})
        if self.speller is not None:
            symbols.update(self.speller.symbols())
        return {**super().symbols(), **symbols}

    @property
    def _last_hidden(self) -> str:
        return f"hidden_{len(self.cells)}"

    def _fed(self, previous: Tensor, state: State, memory: Memory, addend: Tensor, training: bool) -> State:
        """Computes the states of all steps with input feeding, one by one: each step needs h~ of the previous step."""
        first, *others = self.cells
        inputs = {"projected": self.projected(previous) + addend}
        if training and self.dropout:
            # Draws the dropout masks of all steps at once: of h~_{t-1}, and of the inputs of the layers above the
            # first.
            shape = (*ops.shape(previous), len(self.cells), self.units)
            inputs["kept"] = self.input_dropout(ops.ones(shape, self.compute_dtype)) > 0
        cells = [cell.step for cell in self.cells if isinstance(cell.step, RecurrentStep)]
        attention, position_weights = self.attention_layer.step, self.attention_layer.step_parameters
        parameters = {
            **{name: memory[name] for name in ("keys", "values", "mask")},
            **{name: as_tensor(weight) for name, weight in position_weights.items()},
            "feeding": as_tensor(self.feeding.kernel),
            "state_projection": as_tensor(self.state_projection.kernel),
            "cells": [cell.parameters() for cell in self.cells],
        }
        parts = list(first.state_widths)
        projections = None if all(map(_projects_by_its_kernel, others)) else [cell.project_inputs for cell in others]
        if projections is None:
            parameters["kernels"] = [as_tensor(cell.kernel) for cell in others]
            parameters["biases"] = [as_tensor(cell.bias) for cell in others]
            if attention is not None and len(cells) == len(self.cells):
                step = InputFeedingStep(cells, parts, attention, self.dropout)
                return run_recurrence(step, inputs, state, parameters)
        steps = [WithoutGradient(cell.step) for cell in self.cells]
        plain = InputFeedingStep(steps, parts, WithoutGradient(self._step_weights), self.dropout, projections)
        # The lambda hides that `plain` is a `RecurrentStep`: only plain functions are differentiated automatically.
        return run_recurrence(lambda *arguments: plain(*arguments), inputs, state, parameters)

    def _step_weights(self, hidden: Tensor, memory: Memory, position: Tensor | None) -> Tensor:
        """The attention weights of one step, `(sources, source_time)`."""
        weights = self.attention_layer.attention_weights(
            ops.expand_dims(hidden, 1), memory["keys"], memory["mask"], position
        )
        return ops.squeeze(weights, 1)

    def _attend_one_step(self, hidden: Tensor, state: State, memory: Memory, source_of_row: Tensor | None) -> State:
        """Computes the state entries that come from attention, for one step; `Decoder` explains `source_of_row`."""
        new: State = {}
        rows, queries = ops.shape(hidden)[0], {"hidden": hidden}
        if self.attention_layer.needs_positions:
            queries["position"] = state["position"][:, 0]
            new["position"] = state["position"] + 1
        tables = {name: memory[name] for name in ("keys", "values", "mask")}
        if source_of_row is not None and not self.attention_layer.multiplies_queries:
            context, weights = with_table_rows(self._context, queries, tables, source_of_row)
        else:
            if source_of_row is not None:
                tables = {name: self.take_memory(table, rows, source_of_row) for name, table in tables.items()}
            sources = ops.shape(tables["mask"])[0]
            queries = {name: ops.reshape(tensor, (sources, -1, *tensor.shape[1:])) for name, tensor in queries.items()}
            context, weights = self._context(queries, tables)
            context = ops.reshape(context, ops.shape(hidden))
            weights = ops.reshape(weights, (rows, ops.shape(weights)[-1]))
        new["attentional"] = tanh(context + self.state_projection(hidden))
        new["attention"] = weights
        return new

    def _context(self, queries: dict[str, Tensor], memory: Memory) -> tuple[Tensor, Tensor]:
        """c_t W_c, `(sources, steps, units)`, and the attention weights for h `(sources, steps, units)`."""
        weights = self.attention_layer.attention_weights(
            queries["hidden"], memory["keys"], memory["mask"], queries.get("position")
        )
        return matmul(ops.cast(weights, self.compute_dtype), memory["values"]), weights

    def _attend_all_steps(self, hidden: Tensor, memory: Memory, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Computes h~ and the attention weights for h, `(sources, steps, units)`, at the positions of all steps."""
        context, weights = self._context({"hidden": hidden, "position": positions}, memory)
        return tanh(context + self.state_projection(hidden)), weights

    def get_config(self) -> dict[str, object]:
        names = "annotation_width", "attention", "attention_score", "attention_arguments", "input_feeding"
        speller = {} if self.speller_arguments is None else {"speller": self.speller_arguments}
        return {**super().get_config(), **{name: getattr(self, name) for name in names}, **speller}


def _projects_by_its_kernel(cell: RecurrentCell) -> bool:
    """Returns whether a cell projects its inputs as the base class does; a subclass may project them in another way."""
    return type(cell).project_inputs is RecurrentCell.project_inputs
