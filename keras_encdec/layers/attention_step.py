"""The scores and windows of attention, and its steps with hand-written gradients, with and without input feeding."""

import math
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_encdec.backend.gradients import product, sigmoid_gradient, summed_product, tanh_gradient
from keras_encdec.backend.operations import matmul, tanh, wide_dtype
from keras_encdec.backend.types import Shape, State, Structure, Tensor
from keras_encdec.layers.initializers import fresh
from keras_encdec.layers.recurrence import RecurrentStep


class AttentionScore(keras.layers.Layer):
    """Base of attention scores, which compare queries with keys.

    The keys are computed from the annotations once per source, the scores at every step:

        keys   = score.keys(annotations)        `(batch, source_time, width)`
        scores = score(queries, keys)           `(batch, steps, source_time)`

    Args:
        kernel_initializer: initializer of the weights. Defaults to Glorot's uniform distribution.
    """

    def __init__(
        self, kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform", **kwargs: object
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, annotations_shape: Shape) -> None:
        """Makes the weights for queries and annotations of these widths, the last numbers of the shapes."""
        self.built = True

    def key_width(self, query_width: int, annotation_width: int) -> int:
        """Width of the keys."""
        return query_width

    def keys(self, annotations: Tensor) -> Tensor:
        """Computes the keys, which queries are compared with: float tensor `(batch, source_time, key_width)`."""
        raise NotImplementedError

    def symbols(self) -> dict[str, keras.Variable]:
        """Returns the weights by the symbols of the equations."""
        return {}

    def call(self, queries: Tensor, keys: Tensor) -> Tensor:
        return matmul(queries, ops.swapaxes(keys, 1, 2))


class DotScore(AttentionScore):
    """h_t . H_s, for queries and annotations of the same width."""

    def build(self, query_shape: Shape, annotations_shape: Shape) -> None:
        if query_shape[-1] != annotations_shape[-1]:
            raise ValueError(
                f"found queries of width {query_shape[-1]} and annotations of width {annotations_shape[-1]} with "
                'score="dot", expected the same width; give score="general"'
            )
        self.built = True

    def keys(self, annotations: Tensor) -> Tensor:
        return annotations


class GeneralScore(AttentionScore):
    """(h_t W_a) . H_s, computed as h_t . (H_s W_a^T), so that the matrix is applied once per source."""

    def build(self, query_shape: Shape, annotations_shape: Shape) -> None:
        shape = query_shape[-1], annotations_shape[-1]
        self.kernel = self.add_weight(shape=shape, initializer=self.kernel_initializer, name="kernel")
        self.built = True

    def keys(self, annotations: Tensor) -> Tensor:
        return product(annotations, ops.transpose(self.kernel))

    def symbols(self) -> dict[str, keras.Variable]:
        return {"W_a": self.kernel}


class ConcatScore(AttentionScore):
    """tanh(h_t W_q + H_s W_k) . v_a.

    Args:
        score_units: int. Width of W_q and W_k. Defaults to `None`: that of the queries.
    """

    def __init__(
        self,
        score_units: int | None = None,
        kernel_initializer: keras.initializers.Initializer | str = "glorot_uniform",
        **kwargs: object,
    ) -> None:
        super().__init__(kernel_initializer, **kwargs)
        self.score_units = score_units

    def build(self, query_shape: Shape, annotations_shape: Shape) -> None:
        width, initializer = self.key_width(query_shape[-1], annotations_shape[-1]), self.kernel_initializer
        self.query_kernel = self.add_weight(
            shape=(query_shape[-1], width), initializer=fresh(initializer), name="query_kernel"
        )
        self.key_kernel = self.add_weight(
            shape=(annotations_shape[-1], width), initializer=fresh(initializer), name="key_kernel"
        )
        self.score_vector = self.add_weight(shape=(width, 1), initializer=fresh(initializer), name="score_vector")
        self.built = True

    def key_width(self, query_width: int, annotation_width: int) -> int:
        return self.score_units or query_width

    def keys(self, annotations: Tensor) -> Tensor:
        return matmul(annotations, self.key_kernel)

    def symbols(self) -> dict[str, keras.Variable]:
        return {"W_q": self.query_kernel, "W_k": self.key_kernel, "v_a": self.score_vector}

    def call(self, queries: Tensor, keys: Tensor) -> Tensor:
        queries = matmul(queries, self.query_kernel)
        hidden = tanh(ops.expand_dims(queries, 2) + ops.expand_dims(keys, 1))
        return ops.squeeze(matmul(hidden, self.score_vector), -1)


SCORES = {"dot": DotScore, "general": GeneralScore, "concat": ConcatScore}


def last_position(mask: Tensor, dtype: str) -> Tensor:
    """Computes S - 1, the last position of each source; 0 for a source that is all padding.

    Args:
        mask: boolean tensor `(..., source_time)`, false on padding.
        dtype: str. The dtype of the result.

    Returns:
        float tensor `(..., 1)`.
    """
    return ops.relu(ops.sum(ops.cast(mask, dtype), axis=-1, keepdims=True) - 1)


def local_window(mask: Tensor, centers: Tensor, half_width: float) -> tuple[Tensor, Tensor]:
    """Computes the window of local attention: floor(p) - D <= s <= floor(p) + D, or around S - 1 if floor(p) >= S.

    Args:
        mask: boolean tensor `(..., source_time)`, false on padding.
        centers: float tensor that broadcasts to `(..., 1)`: p.
        half_width: int. D.

    Returns:
        tuple: boolean tensor `(..., source_time)`, and s - p, float tensor of that shape.
    """
    positions = ops.arange(ops.shape(mask)[-1], dtype=centers.dtype)
    middle = ops.minimum(ops.floor(centers), last_position(mask, centers.dtype))
    return ops.logical_and(mask, ops.absolute(positions - middle) <= half_width), positions - centers


def gaussian(offsets: Tensor, half_width: float) -> Tensor:
    """Computes exp(-(s - p)^2 / (2 sigma^2)), sigma = D / 2, from s - p."""
    sigma = half_width / 2
    return ops.exp(-offsets * offsets / (2 * sigma * sigma))


def masked_softmax(scores: Tensor, window: Tensor) -> Tensor:
    """Computes the softmax of scores `(..., source_time)` over a window; 0 outside the window."""
    scores = ops.where(window, scores, ops.cast(-1e9, scores.dtype))
    # Keras warns about a softmax over one position. Its weight is 1, and its gradient 0.
    weights = ops.exp(scores - scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)
    return ops.where(window, weights, ops.zeros_like(weights))


class AttentionStep:
    """Computes the attention weights of one step, with a hand-written gradient, for scores that are products.

        a = softmax over s of q . K_s, over the window;   times exp(-(s - p)^2 / (2 sigma^2)) for local-p

    It computes "dot" and "general" scores from given keys K. Like a `RecurrentStep`, it uses no tensors or variables
    except its arguments.

    Args:
        half_width: float. D of local attention. Defaults to infinity: global attention.
        predictive: bool. Whether the window is around a predicted position (local-p). Defaults to `False`.
    """

    def __init__(self, half_width: float = math.inf, predictive: bool = False) -> None:
        self.half_width = half_width
        self.predictive = predictive

    def forward(
        self, queries: Tensor, parameters: dict[str, Tensor], position: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Computes the weights.

        Args:
            queries: float tensor `(batch, H)`.
            parameters: dict of tensors: "keys" `(batch, source_time, H)`, "mask", and for local-p "position_kernel"
                and "position_vector".
            position: integer tensor `(batch, 1)`: t, for local-m. Defaults to `None`.

        Returns:
            tuple: float tensor `(batch, source_time)`, and a dict of tensors for `backward`.
        """
        keys, window, saved = parameters["keys"], parameters["mask"], {}
        wide = wide_dtype(queries.dtype)
        if self.half_width < math.inf:
            if self.predictive:
                hidden = tanh(matmul(queries, parameters["position_kernel"]))
                share = ops.sigmoid(ops.cast(matmul(hidden, parameters["position_vector"]), wide))
                center = last_position(window, wide) * share
                saved.update(hidden=hidden, share=share)
            else:
                center = ops.cast(position, wide)
            window, offsets = local_window(window, center, self.half_width)
        scores = ops.cast(ops.squeeze(matmul(ops.expand_dims(queries, 1), ops.swapaxes(keys, 1, 2)), 1), wide)
        saved["softmax"] = softmax = masked_softmax(scores, window)
        if not self.predictive:
            return softmax, saved
        saved["offsets"] = offsets
        return softmax * gaussian(offsets, self.half_width), saved

    def backward(
        self, d_weights: Tensor, queries: Tensor, saved: dict[str, Tensor], parameters: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Structure]]:
        """Computes the queries' gradient, and the factors of the parameters' gradients for `parameter_gradients`."""
        softmax, factors, d_queries = saved["softmax"], {}, 0
        if self.predictive:
            offsets, share, hidden = saved["offsets"], saved["share"], saved["hidden"]
            factor, last = gaussian(offsets, self.half_width), last_position(parameters["mask"], share.dtype)
            d_center = ops.sum(d_weights * softmax * factor * offsets, axis=1, keepdims=True)
            d_center = d_center / (self.half_width / 2) ** 2
            d_share = ops.cast(sigmoid_gradient(d_center * last, share), queries.dtype)
            d_hidden = tanh_gradient(d_share * ops.transpose(parameters["position_vector"]), hidden)
            d_queries = matmul(d_hidden, ops.transpose(parameters["position_kernel"]))
            factors.update(position_kernel=(queries, d_hidden), position_vector=(hidden, d_share))
            d_weights = d_weights * factor
        d_scores = softmax * (d_weights - ops.sum(softmax * d_weights, axis=-1, keepdims=True))
        d_scores = ops.cast(d_scores, queries.dtype)
        factors["keys"] = d_scores, queries
        d_products = matmul(ops.expand_dims(d_scores, 1), parameters["keys"])
        return d_queries + ops.squeeze(d_products, 1), factors


class WithoutGradient(RecurrentStep):
    """Wraps a plain function, a step of a cell or of attention, for an `InputFeedingStep` that only runs forward.

    Automatic differentiation then computes the gradient.
    """

    def __init__(self, function: Callable[..., Structure]) -> None:
        self._function = function

    def forward(self, *arguments: Structure) -> tuple[Structure, tuple[Structure, ...]]:
        """Returns the function's result, and an empty tuple: only a hand-written gradient needs saved tensors."""
        return self._function(*arguments), ()

    def backward(self, *arguments: Structure) -> Structure:
        raise NotImplementedError


class InputFeedingStep(RecurrentStep):
    """One step through stacked cells and attention. The first cell reads the result, h~, at the next step.

        h_t^(1) = f([e(y_{t-1}), h~_{t-1}], ...),   h_t^(l) = f(h_t^(l-1), ...)
        h~_t    = tanh(c_t W_c + h_t^(L) W_h)

    The embedded words are projected, with biases, for all steps at once. The values H_s W_c are computed once per
    source; c_t W_c is their average. The gradients of all matrices are products over all steps, see `RecurrentStep`.

    The inputs are a dict of "projected" `(batch, gates * units)` and, with dropout, "kept" `(batch, layers, units)`:
    boolean masks of h~_{t-1} and of the inputs of the layers above the first. The state is described by
    `AttentionDecoder.state_spec`. The parameters are a dict of tensors, see `AttentionDecoder._fed`.

    Args:
        cell_steps: list of RecurrentStep, the steps of the layers' cells.
        parts: list of str, the names of a cell's state, "hidden" first.
        attention: AttentionStep, or WithoutGradient.
        dropout: float. Dropout rate of these inputs. Defaults to `0.0`.
        projections: list of functions that project the inputs of the layers above the first, for a step that only runs
            forward. Defaults to `None`: products with the parameters "kernels" and "biases".
    """

    def __init__(
        self,
        cell_steps: Sequence[RecurrentStep],
        parts: Sequence[str],
        attention: AttentionStep | WithoutGradient,
        dropout: float = 0.0,
        projections: Sequence[Callable[[Tensor], Tensor]] | None = None,
    ) -> None:
        self.cell_steps, self.projections = list(cell_steps), projections
        self.parts = list(parts)
        self.attention = attention
        self.scale = 1 / (1 - dropout)

    def _dropped(self, tensor: Tensor, inputs_t: dict[str, Structure], layer: int) -> Tensor:
        """Applies dropout to an input of a layer, or to its gradient."""
        if "kept" not in inputs_t:
            return tensor
        return tensor * ops.cast(inputs_t["kept"][:, layer], tensor.dtype) * self.scale

    def _layer_state(self, state: State, layer: int) -> State:
        return {part: state[f"{part}_{layer + 1}"] for part in self.parts}

    def forward(
        self, inputs_t: dict[str, Structure], state: State, parameters: dict[str, Structure]
    ) -> tuple[State, dict[str, Structure]]:
        new: State = {}
        saved: dict[str, Structure] = {"cells": [], "inputs": [self._dropped(state["attentional"], inputs_t, 0)]}
        hidden, projected = None, inputs_t["projected"] + matmul(saved["inputs"][0], parameters["feeding"])
        for layer, step in enumerate(self.cell_steps):
            if layer:
                saved["inputs"].append(self._dropped(hidden, inputs_t, layer))
                if self.projections is not None:
                    projected = self.projections[layer - 1](saved["inputs"][layer])
                else:
                    kernel, bias = parameters["kernels"][layer - 1], parameters["biases"][layer - 1]
                    projected = product(saved["inputs"][layer], kernel, bias)
            states, saved_by_cell = step.forward(projected, self._layer_state(state, layer), parameters["cells"][layer])
            hidden = states["hidden"]
            new.update({f"{part}_{layer + 1}": states[part] for part in self.parts})
            saved["cells"].append(saved_by_cell)
        weights, saved["attention"] = self.attention.forward(hidden, parameters, state.get("position"))
        values = parameters["values"]
        context = ops.squeeze(matmul(ops.expand_dims(ops.cast(weights, values.dtype), 1), values), 1)
        attentional = tanh(context + matmul(hidden, parameters["state_projection"]))
        saved.update(hidden=hidden, weights=weights, attentional=attentional, kept=inputs_t.get("kept", ()))
        new.update(attentional=attentional, attention=weights)
        if "position" in state:
            new["position"] = state["position"] + 1
        return new, saved

    def backward(
        self, d_state: State, state: State, saved: dict[str, Structure], parameters: dict[str, Structure]
    ) -> tuple[Structure, State, dict[str, Structure]]:
        kept = {} if isinstance(saved["kept"], tuple) else {"kept": saved["kept"]}
        hidden, weights, attentional = saved["hidden"], saved["weights"], saved["attentional"]
        values = parameters["values"]
        d_sum = tanh_gradient(d_state["attentional"], attentional)
        d_weights = ops.squeeze(matmul(ops.expand_dims(d_sum, 1), ops.swapaxes(values, 1, 2)), 1)
        d_weights = ops.cast(d_weights, weights.dtype) + d_state["attention"]
        d_hidden, factors = self.attention.backward(d_weights, hidden, saved["attention"], parameters)
        d_hidden = d_hidden + matmul(d_sum, ops.transpose(parameters["state_projection"]))
        factors["values"] = ops.cast(weights, values.dtype), d_sum
        factors["state_projection"] = hidden, d_sum
        before, factors["kernels"], factors["cells"] = {}, [], []
        for layer in reversed(range(len(self.cell_steps))):
            d_new = self._layer_state(d_state, layer)
            d_new["hidden"] = d_new["hidden"] + d_hidden
            d_projected, d_before, cell_factors = self.cell_steps[layer].backward(
                d_new, self._layer_state(state, layer), saved["cells"][layer], parameters["cells"][layer]
            )
            before.update({f"{part}_{layer + 1}": d_before[part] for part in self.parts})
            kernel = parameters["kernels"][layer - 1] if layer else parameters["feeding"]
            d_hidden = self._dropped(matmul(d_projected, ops.transpose(kernel)), kept, layer)
            factors["kernels"].insert(0, (saved["inputs"][layer], d_projected))
            factors["cells"].insert(0, cell_factors)
        before.update(attentional=d_hidden, attention=ops.zeros_like(weights))
        if "position" in state:
            before["position"] = None
        d_inputs = {"projected": d_projected, **dict.fromkeys(kept)}
        return d_inputs, before, factors

    def parameter_gradients(self, factors: dict[str, Structure]) -> dict[str, Structure]:
        gradients: dict[str, Structure] = {"mask": None}
        for name in ("keys", "values"):
            left, right = factors[name]  # `(time, batch, ...)`
            gradients[name] = matmul(ops.transpose(left, (1, 2, 0)), ops.transpose(right, (1, 0, 2)))
        for name in ("state_projection", "position_kernel", "position_vector"):
            if name in factors:
                gradients[name] = summed_product(*factors[name])
        gradients["feeding"], *gradients["kernels"] = [summed_product(*pair) for pair in factors["kernels"]]
        gradients["biases"] = [ops.sum(d_projected, axis=(0, 1)) for _, d_projected in factors["kernels"][1:]]
        steps = zip(self.cell_steps, factors["cells"], strict=True)
        gradients["cells"] = [step.parameter_gradients(cell_factors) for step, cell_factors in steps]
        return gradients
