"""Recurrent cells: their base class, the registry, the plain cell and the LSTM."""

from collections.abc import Callable, Iterator
from typing import ClassVar

import keras
from keras import ops

from keras_encdec.architectures.configurations import CELLS
from keras_encdec.backend.devices import backend_name
from keras_encdec.backend.gradients import product, sigmoid_gradient, tanh_gradient
from keras_encdec.backend.operations import as_tensor, matmul, tanh
from keras_encdec.backend.types import Shape, State, Structure, Tensor
from keras_encdec.layers.initializers import checked_size, fresh, published_normal
from keras_encdec.layers.recurrence import RecurrentStep, run_recurrence


class RecurrentCell(keras.layers.Layer):
    """Base of cells that project the inputs of all steps at once, and then compute the states step by step.

        outputs, last_state = cell.run(inputs, cell.initial_state(batch), mask)

    A cell also runs in `keras.layers.RNN`. A new cell is a subclass that defines `gates`, `step` and, if its state is
    more than the hidden state, `state_widths`. Register it with `register_cell` to use it in models. A cell with other
    weights overrides `build` and `parameters`.

    Attributes:
        gates: int. Number of gates, including the candidate: the projected inputs are `gates * units` wide.
        gate_symbols: tuple of str. The gates' symbols in the equations, in the order of the columns. Defaults to "1",
            "2" and so on.
        step: `RecurrentStep`, or function `(inputs_t, state, parameters) -> state`, of the projected inputs and a state
            with the names of `state_widths`.
        state_widths: dict of int. Name and width of each tensor `(batch, width)` of the state, in Keras's order. The
            first is "hidden", `units` wide: the output.

    Args:
        units: int. Number of hidden units.
        kernel_initializer: initializer of the matrices of the inputs. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of the matrices of the state. Defaults to `kernel_initializer`.

    Raises:
        ValueError: if `units` is not a whole number, 1 or more.
    """

    gates: ClassVar[int] = 1
    gate_symbols: ClassVar[tuple[str, ...]] = ()
    step: RecurrentStep | Callable[[Tensor, State, list[Tensor]], State]
    bias_initializer: keras.initializers.Initializer | str = "zeros"

    def __init__(
        self,
        units: int,
        kernel_initializer: keras.initializers.Initializer | str | None = None,
        recurrent_initializer: keras.initializers.Initializer | str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.units = checked_size("units", units)
        self.kernel_initializer = keras.initializers.get(kernel_initializer) or published_normal()
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer) or self.kernel_initializer

    @property
    def state_widths(self) -> dict[str, int]:
        """Name and width of each tensor of the state; the first is "hidden", the output."""
        return {"hidden": self.units}

    @property
    def state_size(self) -> int | list[int]:
        """Width of the state, or the list of widths of its tensors if there are several, for `keras.layers.RNN`."""
        widths = list(self.state_widths.values())
        return widths[0] if len(widths) == 1 else widths

    @property
    def output_size(self) -> int:
        """Width of the output, for `keras.layers.RNN`."""
        return self.units

    def build(self, input_shape: Shape) -> None:
        width = self.gates * self.units
        self.kernel = self.add_weight(
            shape=(input_shape[-1], width), initializer=fresh(self.kernel_initializer), name="kernel"
        )
        self.recurrent_kernel = self.add_weight(
            shape=(self.units, width), initializer=fresh(self.recurrent_initializer), name="recurrent_kernel"
        )
        self.bias = self.add_weight(shape=(width,), initializer=self.bias_initializer, name="bias")
        self.built = True

    def project_inputs(self, inputs: Tensor) -> Tensor:
        """Computes x W + b of all gates and any number of steps: `(..., features)` to `(..., gates * units)`."""
        return product(inputs, self.kernel, self.bias)

    def parameters(self) -> list[Tensor]:
        """Returns the recurrent matrices, for `step`: a list of tensors, read once before a loop."""
        return [as_tensor(self.recurrent_kernel)]

    def run(self, inputs: Tensor, initial_state: State, mask: Tensor | None = None) -> tuple[Tensor, State]:
        """Reads whole sequences.

        Args:
            inputs: float tensor `(batch, time, features)`, with at least one step.
            initial_state: dict of float tensors, named as in `state_widths`.
            mask: boolean tensor `(batch, time)`, false on padding, where the state stays as it is. Defaults to `None`:
                no padding.

        Returns:
            tuple: the outputs after every step, `(batch, time, units)`, and the state after the last step.
        """
        return self.run_projected(self.project_inputs(inputs), initial_state, mask)

    def run_projected(
        self, projected: Tensor, initial_state: State, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Reads whole sequences of projected inputs, `(batch, time, gates * units)`; see `run`."""
        states = run_recurrence(self.step, projected, initial_state, self.parameters(), mask)
        # In the cell's order, as a loop may change the order of a dict.
        return states["hidden"], {part: states[part][:, -1] for part in self.state_widths}

    def symbols(self) -> dict[str, tuple[keras.Variable, slice]]:
        """Returns a dict from the weights' symbols in the equations, such as "W_i", to a variable and its columns."""
        parts = {"W": self.kernel, "U": self.recurrent_kernel, "b": self.bias}
        return {name: where for letter, variable in parts.items() for name, where in self.columns(letter, variable)}

    def columns(self, letter: str, variable: keras.Variable) -> Iterator[tuple[str, tuple[keras.Variable, slice]]]:
        """Yields the symbol of each gate, such as "W_i", with a variable `(..., gates * units)` and its columns."""
        for number, gate in enumerate(self.gate_symbols or map(str, range(1, self.gates + 1))):
            columns = slice(number * self.units, (number + 1) * self.units)
            yield f"{letter}_{gate}" if gate else letter, (variable, columns)

    def call(self, inputs: Tensor, states: list[Tensor], training: bool | None = None) -> tuple[Tensor, list[Tensor]]:
        state = dict(zip(self.state_widths, states, strict=True))
        state = self.step(self.project_inputs(inputs), state, self.parameters())
        return state["hidden"], [state[name] for name in self.state_widths]

    def initial_state(self, batch_size: int | Tensor) -> State:
        """Returns zeros, a dict of tensors `(batch_size, width)` with the names of `state_widths`."""
        widths = self.state_widths.items()
        return {name: ops.zeros((batch_size, width), dtype=self.compute_dtype) for name, width in widths}

    def get_initial_state(self, batch_size: int | Tensor | None = None) -> list[Tensor]:
        """Returns zeros, a list of tensors `(batch_size, width)`, for `keras.layers.RNN`."""
        return list(self.initial_state(batch_size).values())

    def get_config(self) -> dict[str, object]:
        return {
            **super().get_config(),
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
        }


def register_cell(name: str) -> Callable[[type[RecurrentCell]], type[RecurrentCell]]:
    """A decorator that registers a cell class, for models to use.

    Args:
        name: str. Its name in configurations.

    Raises:
        ValueError: for a name that another class has, and for a class that is not a `RecurrentCell`.
    """
    return CELLS.decorator(name, RecurrentCell)


def recurrent_cell_class(name: str) -> type[RecurrentCell]:
    """Returns the cell class registered under a name.

    Raises:
        ConfigurationError: a ValueError, for a name that is not registered.
    """
    return CELLS.find(name)


def cell_names() -> list[str]:
    """Returns the names of all registered cells, in alphabetical order."""
    return sorted(CELLS)


class RNNStep(RecurrentStep):
    """Step of `RNNCell`: parameter U. The inputs are projected; the state is `{"hidden": (batch, units)}`."""

    def forward(self, inputs_t: Tensor, state: State, parameters: list[Tensor]) -> tuple[State, Structure]:
        new = tanh(inputs_t + matmul(state["hidden"], parameters[0]))
        return {"hidden": new}, new

    def backward(
        self, d_state: State, state: State, saved: Structure, parameters: list[Tensor]
    ) -> tuple[Tensor, State, Structure]:
        d_sum = tanh_gradient(d_state["hidden"], saved)
        before = {"hidden": matmul(d_sum, ops.transpose(parameters[0]))}
        return d_sum, before, (state["hidden"], d_sum)


@register_cell("rnn")
@keras.saving.register_keras_serializable(package="keras_encdec")
class RNNCell(RecurrentCell):
    """Recurrent unit without gates, one step.

        h = tanh(x W + h U + b)

    The cell runs in `keras.layers.RNN`. `run` reads whole sequences with far fewer products, and the same result.

    Args:
        units: int. Number of hidden units.
        kernel_initializer: initializer of W. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of U. Defaults to that of W.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of one tensor `(batch, units)`.

    Returns:
        tuple: the new state `(batch, units)`, and a list that holds it.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(RNNCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2; Elman, 1990
    """

    gate_symbols = ("",)
    step = RNNStep()


class LSTMStep(RecurrentStep):
    """Step of `LSTMCell`: parameter [U_i U_f U_o U_g].

    The inputs are projected, `(batch, 4 * units)`; the state is h and c, "hidden" and "cell", `(batch, units)` each.
    """

    def forward(self, inputs_t: Tensor, state: State, parameters: list[Tensor]) -> tuple[State, Structure]:
        units = state["hidden"].shape[-1]
        sums = inputs_t + matmul(state["hidden"], parameters[0])
        gates, candidate = ops.sigmoid(sums[:, : 3 * units]), tanh(sums[:, 3 * units :])
        i, f, o = gates[:, :units], gates[:, units : 2 * units], gates[:, 2 * units :]
        cell = f * state["cell"] + i * candidate
        squashed = tanh(cell)
        return {"hidden": o * squashed, "cell": cell}, (i, f, o, candidate, squashed)

    def backward(
        self, d_state: State, state: State, saved: Structure, parameters: list[Tensor]
    ) -> tuple[Tensor, State, Structure]:
        d_hidden = d_state["hidden"]
        i, f, o, candidate, squashed = saved
        d_cell = d_state["cell"] + tanh_gradient(d_hidden * o, squashed)
        d_sums = ops.concatenate(
            [
                sigmoid_gradient(d_cell * candidate, i),
                sigmoid_gradient(d_cell * state["cell"], f),
                sigmoid_gradient(d_hidden * squashed, o),
                tanh_gradient(d_cell * i, candidate),
            ],
            axis=-1,
        )
        before = {"hidden": matmul(d_sums, ops.transpose(parameters[0])), "cell": d_cell * f}
        return d_sums, before, (state["hidden"], d_sums)


@register_cell("lstm")
@keras.saving.register_keras_serializable(package="keras_encdec")
class LSTMCell(RecurrentCell):
    """Long short-term memory, one step.

        i = sigmoid(x W_i + h U_i + b_i)
        f = sigmoid(x W_f + h U_f + b_f)
        o = sigmoid(x W_o + h U_o + b_o)
        g = tanh(x W_g + h U_g + b_g)
        c = f * c + i * g
        h = o * tanh(c)

    The state is h and c, as in `keras.layers.LSTMCell`. The gates are in the order of the equations, which is not the
    order of Keras.

    The thesis has no biases. b_f starts at one, as in `keras.layers.LSTMCell`, so that the cell keeps its memory until
    the forget gate has learned otherwise (Jozefowicz et al., 2015). The other biases start at zero.

    The cell runs in `keras.layers.RNN`. `run` reads whole sequences with far fewer products, and the same result.

    Args:
        units: int. Number of hidden units, and of memory cells.
        kernel_initializer: initializer of W_i, W_f, W_o, W_g. Defaults to N(0, 0.01).
        recurrent_initializer: initializer of U_i, U_f, U_o, U_g. Defaults to that of the W matrices.

    Call arguments:
        inputs: float tensor `(batch, features)`.
        states: list of h and c, tensors `(batch, units)`.

    Returns:
        tuple: the new h `(batch, units)`, and a list of it and the new c.

    Example:

    >>> import keras
    >>> tuple(keras.layers.RNN(LSTMCell(4))(keras.ops.ones((2, 3, 5))).shape)
    (2, 4)

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), chapter 2; Zaremba et al., 2014
          (arXiv 1409.2329), section 3.1
    """

    gates = 4
    gate_symbols = ("i", "f", "o", "g")

    step = LSTMStep()

    @property
    def state_widths(self) -> dict[str, int]:
        return {"hidden": self.units, "cell": self.units}

    # Faster than in the base class: under PyTorch on a CPU, all steps are one operation where that pays.
    def run(self, inputs: Tensor, initial_state: State, mask: Tensor | None = None) -> tuple[Tensor, State]:
        if type(self) is LSTMCell and backend_name() == "torch":  # a subclass may compute something else
            from keras_encdec.backend.torch_lstm import onednn_lstm

            values = inputs, *(initial_state[part] for part in self.state_widths)
            inputs, hidden, cell, *weights = map(as_tensor, (*values, self.kernel, self.recurrent_kernel, self.bias))
            mask = None if mask is None else ops.cast(mask, "bool")
            computed = onednn_lstm(inputs, hidden, cell, weights, mask)
            if computed is not None:
                outputs, hidden, cell = computed
                return outputs, {"hidden": hidden, "cell": cell}
        return super().run(inputs, initial_state, mask)

    def bias_initializer(self, shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        """Returns zeros, and ones for the forget gate, which starts open."""
        units = self.units
        return ops.concatenate([ops.zeros(units, dtype), ops.ones(units, dtype), ops.zeros(2 * units, dtype)])
