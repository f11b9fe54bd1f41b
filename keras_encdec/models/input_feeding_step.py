"""One step of a decoder with attention and input feeding, forward and backward."""

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from keras_encdec.layers.attention_step import AttentionStep
from keras_encdec.layers.recurrent_step import RecurrentStep, summed_product


class InputFeedingStep(RecurrentStep):
    """A step through stacked cells and attention, whose outcome h~ the first cell reads at the next step.

        h_t^(1) = f([e(y_{t-1}), h~_{t-1}], ...),   h_t^(l) = f(h_t^(l-1), ...)
        h~_t    = tanh(c_t W_c + h_t^(L) W_h)

    The words before are projected, with biases, for all steps at once; so are H_s W_c, the values, which c_t W_c is an
    average of. The gradients of all matrices are products over all steps, see `RecurrentStep`.

    inputs: dict of "projected" `(batch, gates * units)`, and, with dropout, "kept" `(batch, layers, units)`, boolean:
    what is kept of h~_{t-1} and of the inputs of the layers above the first.
    state: dict of tensors, as `AttentionDecoder.state_spec` has it.
    parameters: dict of tensors, see `AttentionDecoder`.

    Args:
        cell_steps: list of RecurrentStep, of each layer's cell.
        parts: list of str, names of the state of a cell, "hidden" first.
        attention: AttentionStep.
        dropout: float. Share that is not kept. Defaults to `0.0`.
    """

    def __init__(
        self, cell_steps: Sequence[RecurrentStep], parts: Sequence[str], attention: AttentionStep, dropout: float = 0.0
    ) -> None:
        self.cell_steps = list(cell_steps)
        self.parts = list(parts)
        self.attention = attention
        self.scale = 1 / (1 - dropout)

    def _dropped(self, tensor: Any, inputs_t: dict[str, Any], layer: int) -> Any:
        """What dropout leaves of an input, or of its gradient."""
        if "kept" not in inputs_t:
            return tensor
        return tensor * ops.cast(inputs_t["kept"][:, layer], tensor.dtype) * self.scale

    def _of_layer(self, state: dict[str, Any], layer: int) -> dict[str, Any]:
        return {part: state[f"{part}_{layer + 1}"] for part in self.parts}

    def forward(
        self, inputs_t: dict[str, Any], state: dict[str, Any], parameters: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        new, saved = {}, {"cells": [], "inputs": [self._dropped(state["attentional"], inputs_t, 0)]}
        hidden, projected = None, inputs_t["projected"] + ops.matmul(saved["inputs"][0], parameters["feeding"])
        for layer, step in enumerate(self.cell_steps):
            if layer:
                saved["inputs"].append(self._dropped(hidden, inputs_t, layer))
                kernel, bias = parameters["kernels"][layer - 1], parameters["biases"][layer - 1]
                projected = ops.matmul(saved["inputs"][layer], kernel) + bias
            states, saved_by_cell = step.forward(projected, self._of_layer(state, layer), parameters["cells"][layer])
            hidden = states["hidden"]
            new.update({f"{part}_{layer + 1}": states[part] for part in self.parts})
            saved["cells"].append(saved_by_cell)
        weights, saved["attention"] = self.attention.forward(hidden, parameters, state.get("position"))
        values = parameters["values"]
        context = ops.squeeze(ops.matmul(ops.expand_dims(ops.cast(weights, values.dtype), 1), values), 1)
        attentional = ops.tanh(context + ops.matmul(hidden, parameters["state_projection"]))
        saved.update(hidden=hidden, weights=weights, attentional=attentional, kept=inputs_t.get("kept", ()))
        new.update(attentional=attentional, attention=weights)
        if "position" in state:
            new["position"] = state["position"] + 1
        return new, saved

    def backward(
        self, d_state: dict[str, Any], state: dict[str, Any], saved: dict[str, Any], parameters: dict[str, Any]
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        kept = {} if isinstance(saved["kept"], tuple) else {"kept": saved["kept"]}
        hidden, weights, attentional, values = (
            saved["hidden"], saved["weights"], saved["attentional"], parameters["values"]
        )  # fmt: skip
        d_sum = d_state["attentional"] * (1 - attentional * attentional)
        d_weights = ops.squeeze(ops.matmul(ops.expand_dims(d_sum, 1), ops.swapaxes(values, 1, 2)), 1)
        d_weights = ops.cast(d_weights, weights.dtype) + d_state["attention"]
        d_hidden, factors = self.attention.backward(d_weights, hidden, saved["attention"], parameters)
        d_hidden = d_hidden + ops.matmul(d_sum, ops.transpose(parameters["state_projection"]))
        factors["values"] = ops.cast(weights, values.dtype), d_sum
        factors["state_projection"] = hidden, d_sum
        before, factors["kernels"], factors["cells"] = {}, [], []
        for layer in reversed(range(len(self.cell_steps))):
            d_new = self._of_layer(d_state, layer)
            d_new["hidden"] = d_new["hidden"] + d_hidden
            d_projected, d_before, cell_factors = self.cell_steps[layer].backward(
                d_new, self._of_layer(state, layer), saved["cells"][layer], parameters["cells"][layer]
            )
            before.update({f"{part}_{layer + 1}": d_before[part] for part in self.parts})
            kernel = parameters["kernels"][layer - 1] if layer else parameters["feeding"]
            d_hidden = self._dropped(ops.matmul(d_projected, ops.transpose(kernel)), kept, layer)
            factors["kernels"].insert(0, (saved["inputs"][layer], d_projected))
            factors["cells"].insert(0, cell_factors)
        before.update(attentional=d_hidden, attention=ops.zeros_like(weights))
        if "position" in state:
            before["position"] = None
        d_inputs = {"projected": d_projected, **dict.fromkeys(kept)}
        return d_inputs, before, factors

    def parameter_gradients(self, factors: dict[str, Any]) -> dict[str, Any]:
        gradients: dict[str, Any] = {"mask": None}
        for name in ("keys", "values"):
            left, right = factors[name]  # `(time, batch, ...)`
            gradients[name] = ops.matmul(ops.transpose(left, (1, 2, 0)), ops.transpose(right, (1, 0, 2)))
        for name in ("state_projection", "position_kernel", "position_vector"):
            if name in factors:
                gradients[name] = summed_product(*factors[name])
        gradients["feeding"], *gradients["kernels"] = [summed_product(*pair) for pair in factors["kernels"]]
        gradients["biases"] = [ops.sum(d_projected, axis=(0, 1)) for _, d_projected in factors["kernels"][1:]]
        steps = zip(self.cell_steps, factors["cells"], strict=True)
        gradients["cells"] = [step.parameter_gradients(cell_factors) for step, cell_factors in steps]
        return gradients


class WithoutGradient:
    """A step, of a cell or of attention, that is a plain function: what stands around it is differentiated by itself.

    Args:
        function: what `forward` calls.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def forward(self, *arguments: Any) -> tuple[Any, tuple]:
        """What the function gives, and nothing for a hand-written gradient."""
        return self._function(*arguments), ()
