"""The gated recurrent unit: a layer over a sequence, its cell without and with a context, and the steps of each."""

import keras
from keras import ops

from keras_encdec.backend.gradients import sigmoid_gradient, summed_product, tanh_gradient
from keras_encdec.backend.operations import as_tensor, matmul, tanh
from keras_encdec.backend.types import Shape, State, Structure, Tensor
from keras_encdec.layers.initializers import LeftSingularVectors, checked_size, fresh
from keras_encdec.layers.recurrence import RecurrentStep, run_recurrence
from keras_encdec.layers.recurrent_cell import RecurrentCell, register_cell


@keras.saving.register_keras_serializable(package="keras_encdec")
class GRU(keras.layers.Layer):
    """`GRUCell` run along a sequence, from h_0 = 0.

    The inputs of all time steps are projected in one matrix product; only the recurrent products are computed step by
    step. A masked step keeps the previous state, so that padding does not change the result, wherever it is.
    `keras.layers.Bidirectional` can wrap this layer.

    Args:
        units: int. Number of hidden units.
        reset_after: bool. See `GRUCell`. Defaults to `False`.
        return_sequences: bool. Whether to return the state of every step instead of the last.
            Defaults to `False`.
        return_state: bool. Whether to return the last state as well. Defaults to `False`.
        go_backwards: bool. Whether to read the inputs, and return the states, from the last step to the first.
            Defaults to `False`.
        kernel_initializer, recurrent_initializer: see `GRUCell`.

    Call arguments:
        inputs: float tensor `(batch, time, features)`.
        mask: boolean tensor `(batch, time)`, false on padding. Defaults to the mask of the layer that made the inputs,
            or to no padding.
        initial_state: tensor `(batch, units)`, or a list of this tensor. Defaults to zeros.

    Returns:
        tensor `(batch, units)`, or `(batch, time, units)` with `return_sequences`; with `return_state` a tuple of it
        and the last state `(batch, units)`.

    Raises:
        ValueError: if `units` is not a whole number, 1 or more; and for an initial state of the wrong shape.

    Example:

    >>> import keras
    >>> tuple(GRU(4, return_sequences=True)(keras.ops.ones((2, 3, 5))).shape)
    (2, 3, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), equations 5 to 8
    """

    # `keras.layers.Bidirectional` reads these attributes of a recurrent layer.
    stateful = False
    states = None

    def __init__(
        self,
        units: int,
        reset_after: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        kernel_initializer: keras.initializers.Initializer | str | None = None,
        recurrent_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.reset_after = reset_after
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.go_backwards = go_backwards
        self.cell = GRUCell(
            units, reset_after, kernel_initializer, recurrent_initializer, dtype=self.dtype_policy, name="cell"
        )
        self.kernel_initializer = self.cell.kernel_initializer
        self.recurrent_initializer = self.cell.recurrent_initializer
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.supports_masking = True

    def build(self, input_shape: Shape) -> None:
        self.cell.build((input_shape[0], input_shape[-1]))
        self.built = True

    def call(
        self, inputs: Tensor, mask: Tensor | None = None, initial_state: Tensor | list[Tensor] | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        if initial_state is None:
            initial_state = self.cell.get_initial_state(ops.shape(inputs)[0])
        given = initial_state if isinstance(initial_state, (list, tuple)) else [initial_state]
        if len(given) != 1:
            raise ValueError(f"found a list of {len(given)} initial states, expected one state")
        [state] = given
        found, expected = tuple(state.shape), (inputs.shape[0], self.units)
        sizes = zip(found, expected, strict=False)
        if len(found) != 2 or any(None not in pair and len({*pair}) > 1 for pair in sizes):
            raise ValueError(f"found an initial state of shape {found}, expected {expected}")
        if self.go_backwards:
            inputs, mask = ops.flip(inputs, axis=1), self._flip_mask(mask)
        # A loop keeps the dtype of its state: a state of integers would be rounded at every step.
        states, last = self.cell.run(inputs, {"hidden": ops.cast(state, self.compute_dtype)}, mask)
        outputs = states if self.return_sequences else last["hidden"]
        return (outputs, last["hidden"]) if self.return_state else outputs

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor) -> Tensor:
        mask = previous_mask if self.return_sequences else None
        if self.go_backwards:
            mask = self._flip_mask(mask)
        return (mask, None) if self.return_state else mask

    def compute_output_shape(
        self, inputs_shape: Shape, initial_state_shape: Shape | list[Shape] | None = None
    ) -> Shape | tuple[Shape, Shape]:
        last = (inputs_shape[0], self.units)
        outputs = (*inputs_shape[:2], self.units) if self.return_sequences else last
        return (outputs, last) if self.return_state else outputs

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "units": self.units,
            "reset_after": self.reset_after,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "go_backwards": self.go_backwards,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }

    @staticmethod
    def _flip_mask(mask: Tensor | None) -> Tensor | None:
        return None if mask is None else ops.flip(ops.cast(mask, "bool"), axis=1)


@register_cell("gru")
@keras.saving.register_keras_serializable(package="keras_encdec")
class GRUCell(RecurrentCell):
    """Gated hidden unit of the RNN Encoder-Decoder, one step.

        r = sigmoid(x W_r + h U_r + b_r)
        z = sigmoid(x W_z + h U_z + b_z)
        n = tanh(x W + b + (r * h) U)      reset_after=False: the body of the paper
        n = tanh(x W + b + r * (h U))      reset_after=True: its supplement
        h = z * h + (1 - z) * n

    The update gate z keeps the OLD state. Papers that exchange z and 1 - z describe the same model with the signs of
    W_z, U_z and b_z changed. The two values of `reset_after` are two different models. Unlike `keras.layers.GRUCell`
    with `reset_after=True`, there is no bias inside `r * (h U)`.

    The cell runs in `keras.layers.RNN`; the layer `GRU` projects the inputs of all steps at once.

    Args:
        units: int. Number of hidden units.
        reset_after: bool. Whether the reset gate is applied after the product with U instead of before it. Defaults to
            `False`.
        kernel_initializer: initializer of W, W_r, W_z. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of U, U_r, U_z. Defaults to `LeftSingularVectors`.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of one tensor `(batch, units)`.

    Returns:
        tuple: the new state `(batch, units)`, and a list that holds it.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(GRUCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), equations 5 to 8 and appendix A
    """

    gates = 3
    gate_symbols = ("r", "z", "")

    def __init__(
        self,
        units: int,
        reset_after: bool = False,
        kernel_initializer: keras.initializers.Initializer | str | None = None,
        recurrent_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(units, kernel_initializer, recurrent_initializer or LeftSingularVectors(), **kwargs)
        self.reset_after = reset_after
        self.step = GRUStep(reset_after)

    def build(self, input_shape: Shape) -> None:
        units = self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], 3 * units), initializer=fresh(self.kernel_initializer), name="kernel"
        )
        # Two variables, as the candidate's product needs r * h first. A slice of one variable would be copied at each
        # step.
        self.gate_recurrent_kernel = self.add_weight(
            shape=(units, 2 * units), initializer=fresh(self.recurrent_initializer), name="gate_recurrent_kernel"
        )
        self.candidate_recurrent_kernel = self.add_weight(
            shape=(units, units), initializer=fresh(self.recurrent_initializer), name="candidate_recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(3 * units,), initializer="zeros", name="bias")
        self.built = True

    def parameters(self) -> list[Tensor]:
        """Returns the recurrent matrices, for `step`. See `RecurrentCell.parameters`."""
        return [as_tensor(w) for w in (self.gate_recurrent_kernel, self.candidate_recurrent_kernel)]

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        recurrent = dict(list(self.columns("U", self.gate_recurrent_kernel))[:2])
        recurrent["U"] = self.candidate_recurrent_kernel, slice(None)
        return {**dict(self.columns("W", self.kernel)), **recurrent, **dict(self.columns("b", self.bias))}

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "reset_after": self.reset_after}


@keras.saving.register_keras_serializable(package="keras_encdec")
class ContextGRUCell(RecurrentCell):
    """Gated hidden unit that reads a context, the summary of the source, at every step.

        r = sigmoid(x W_r + h U_r + c C_r + b_r)
        z = sigmoid(x W_z + h U_z + c C_z + b_z)
        n = tanh(x W + b + r * (h U + c C))     the reset gate covers c C as well
        h = z * h + (1 - z) * n

    The context does not change with time. In `keras.layers.RNN` it is a second state: pass `initial_state=[h_0, c]`.
    `run` reads whole sequences from `{"hidden": h_0, "context": c}`: the result is the same, with far fewer products.

    Args:
        units: int. Number of hidden units.
        context_units: int. Width of the context. Defaults to `units`.
        kernel_initializer: initializer of W, W_r, W_z, C, C_r, C_z. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of U, U_r, U_z. Defaults to `LeftSingularVectors`.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of the state `(batch, units)` and the context `(batch, context_units)`.

    Returns:
        tuple: the new state `(batch, units)`, and a list of it and the context.

    Example:

    >>> from keras import ops
    >>> rnn = keras.layers.RNN(ContextGRUCell(4))
    >>> tuple(rnn(ops.ones((2, 3, 5)), initial_state=[ops.zeros((2, 4)), ops.ones((2, 4))]).shape)
    (2, 4)

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), appendix A.1.2
    """

    gates = 3
    gate_symbols = ("r", "z", "")

    def __init__(
        self,
        units: int,
        context_units: int | None = None,
        kernel_initializer: keras.initializers.Initializer | str | None = None,
        recurrent_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(units, kernel_initializer, recurrent_initializer or LeftSingularVectors(), **kwargs)
        self.context_units = self.units if context_units is None else checked_size("context_units", context_units)
        self.step = ContextGRUStep()

    @property
    def state_widths(self) -> dict[str, int]:
        return {"hidden": self.units, "context": self.context_units}

    def build(self, input_shape: Shape) -> None:
        width = 3 * self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], width), initializer=fresh(self.kernel_initializer), name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, width), initializer=fresh(self.recurrent_initializer), name="recurrent_kernel"
        )
        self.context_kernel = self.add_weight(
            shape=(self.context_units, width), initializer=fresh(self.kernel_initializer), name="context_kernel"
        )
        self.bias = self.add_weight(shape=(width,), initializer="zeros", name="bias")
        self.built = True

    def project_context(self, context: Tensor) -> Tensor:
        """Computes c [C_r C_z C] once per sequence: `(batch, context_units)` to `(batch, 3 * units)`."""
        return matmul(context, self.context_kernel)

    def context_parameters(self, projected_context: Tensor) -> list[Tensor]:
        """Returns the recurrent matrix and the context, for `step`, instead of `parameters`.

        Args:
            projected_context: float tensor `(batch, 3 * units)`, from `project_context`.
        """
        return [*self.parameters(), projected_context]

    def call(self, inputs: Tensor, states: list[Tensor], training: bool | None = None) -> tuple[Tensor, list[Tensor]]:
        hidden, context = states
        parameters = self.context_parameters(self.project_context(context))
        hidden = self.step(self.project_inputs(inputs), {"hidden": hidden}, parameters)["hidden"]
        return hidden, [hidden, context]

    def run_projected(
        self, projected: Tensor, initial_state: State, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        first, context = {"hidden": initial_state["hidden"]}, initial_state["context"]
        parameters = self.context_parameters(self.project_context(context))
        hidden = run_recurrence(self.step, projected, first, parameters, mask)["hidden"]
        return hidden, {"hidden": hidden[:, -1], "context": context}

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        return {**super().symbols(), **dict(self.columns("C", self.context_kernel))}

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "context_units": self.context_units}


class GRUStep(RecurrentStep):
    """Step of `GRUCell`: parameters [U_r U_z] and U."""

    def __init__(self, reset_after: bool) -> None:
        self.reset_after = reset_after

    def forward(self, inputs_t: Tensor, state: State, parameters: list[Tensor]) -> tuple[State, Structure]:
        hidden, (gate_kernel, candidate_kernel) = state["hidden"], parameters
        units = hidden.shape[-1]
        gates = ops.sigmoid(inputs_t[:, : 2 * units] + matmul(hidden, gate_kernel))
        r, z = gates[:, :units], gates[:, units:]
        if self.reset_after:
            recurrent = matmul(hidden, candidate_kernel)
            candidate = tanh(inputs_t[:, 2 * units :] + r * recurrent)
        else:
            recurrent = r * hidden
            candidate = tanh(inputs_t[:, 2 * units :] + matmul(recurrent, candidate_kernel))
        return {"hidden": candidate + z * (hidden - candidate)}, (r, z, candidate, recurrent)

    def backward(
        self, d_state: State, state: State, saved: Structure, parameters: list[Tensor]
    ) -> tuple[Tensor, State, Structure]:
        hidden, d_new, (gate_kernel, candidate_kernel) = state["hidden"], d_state["hidden"], parameters
        r, z, candidate, recurrent = saved
        d_candidate = tanh_gradient(d_new * (1 - z), candidate)
        d_z = sigmoid_gradient(d_new * (hidden - candidate), z)
        if self.reset_after:
            d_r = sigmoid_gradient(d_candidate * recurrent, r)
            d_recurrent = d_candidate * r
            left, right = hidden, d_recurrent
            d_hidden = matmul(d_recurrent, ops.transpose(candidate_kernel))
        else:
            d_reset = matmul(d_candidate, ops.transpose(candidate_kernel))
            d_r = sigmoid_gradient(d_reset * hidden, r)
            left, right = recurrent, d_candidate
            d_hidden = d_reset * r
        d_gates = ops.concatenate([d_r, d_z], axis=-1)
        d_hidden = d_hidden + d_new * z + matmul(d_gates, ops.transpose(gate_kernel))
        d_inputs = ops.concatenate([d_gates, d_candidate], axis=-1)
        return d_inputs, {"hidden": d_hidden}, [(hidden, d_gates), (left, right)]

    def parameter_gradients(self, factors: Structure) -> list[Tensor]:
        return [summed_product(left, right) for left, right in factors]


class ContextGRUStep(RecurrentStep):
    """Step of `ContextGRUCell`: parameters [U_r U_z U] and c [C_r C_z C]."""

    def forward(self, inputs_t: Tensor, state: State, parameters: list[Tensor]) -> tuple[State, Structure]:
        hidden, (kernel, projected_context) = state["hidden"], parameters
        units = hidden.shape[-1]
        recurrent = matmul(hidden, kernel) + projected_context
        gates = ops.sigmoid(inputs_t[:, : 2 * units] + recurrent[:, : 2 * units])
        r, z = gates[:, :units], gates[:, units:]
        candidate = tanh(inputs_t[:, 2 * units :] + r * recurrent[:, 2 * units :])
        return {"hidden": candidate + z * (hidden - candidate)}, (r, z, candidate, recurrent[:, 2 * units :])

    def backward(
        self, d_state: State, state: State, saved: Structure, parameters: list[Tensor]
    ) -> tuple[Tensor, State, Structure]:
        hidden, d_new = state["hidden"], d_state["hidden"]
        r, z, candidate, recurrent = saved
        d_candidate = tanh_gradient(d_new * (1 - z), candidate)
        d_z = sigmoid_gradient(d_new * (hidden - candidate), z)
        d_r = sigmoid_gradient(d_candidate * recurrent, r)
        d_recurrent = ops.concatenate([d_r, d_z, d_candidate * r], axis=-1)
        d_hidden = d_new * z + matmul(d_recurrent, ops.transpose(parameters[0]))
        return ops.concatenate([d_r, d_z, d_candidate], axis=-1), {"hidden": d_hidden}, (hidden, d_recurrent)

    def parameter_gradients(self, factors: Structure) -> list[Tensor]:
        _, d_recurrent = factors
        return [summed_product(*factors), ops.sum(d_recurrent, axis=0)]
