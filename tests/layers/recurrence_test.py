import keras
import numpy as np
import pytest
from gradients import double_precision, gradients_of
from keras import ops
from oracle import sigmoid

from keras_encdec.layers import GRU, GRUCell, LSTMCell, RecurrentStep, RNNCell, run_recurrence
from keras_encdec.layers.gru import ContextGRUStep

rng = np.random.default_rng(0)
BATCH, UNITS = 3, 4
EXACT = 1e-12
# Unrolled, and as a loop.
STEPS = [5, 19]


def where(mask, t, new, old):
    return new if mask is None else np.where(mask[:, t].reshape(-1, *[1] * (new.ndim - 1)), new, old)


def masks(steps):
    padded = np.ones((BATCH, steps), bool)
    padded[0, steps // 2 :] = padded[1, : steps // 3] = False
    return [None, padded]


def numpy_gru_state(x, state, U_gates, U):
    h = state["hidden"]
    r, z = np.split(sigmoid(x[:, : 2 * UNITS] + h @ U_gates), 2, axis=-1)
    return {"hidden": z * h + (1 - z) * np.tanh(x[:, 2 * UNITS :] + (r * h) @ U)}


def numpy_reset_after_state(x, state, U_gates, U):
    h = state["hidden"]
    r, z = np.split(sigmoid(x[:, : 2 * UNITS] + h @ U_gates), 2, axis=-1)
    return {"hidden": z * h + (1 - z) * np.tanh(x[:, 2 * UNITS :] + r * (h @ U))}


def numpy_context_state(x, state, U, c):
    h = state["hidden"]
    r, z, n = np.split(h @ U + c, 3, axis=-1)
    r, z = sigmoid(x[:, :UNITS] + r), sigmoid(x[:, UNITS : 2 * UNITS] + z)
    return {"hidden": z * h + (1 - z) * np.tanh(x[:, 2 * UNITS :] + r * n)}


def numpy_lstm_state(x, state, U):
    i, f, o, g = np.split(x + state["hidden"] @ U, 4, axis=-1)
    cell = sigmoid(f) * state["cell"] + sigmoid(i) * np.tanh(g)
    return {"hidden": sigmoid(o) * np.tanh(cell), "cell": cell}


def numpy_rnn_state(x, state, U):
    return {"hidden": np.tanh(x + state["hidden"] @ U)}


GATES = UNITS, 2 * UNITS
CASES = {
    "gru": (GRUCell(UNITS).step, numpy_gru_state, 3, ["hidden"], [GATES, (UNITS, UNITS)]),
    "gru, reset after": (
        GRUCell(UNITS, reset_after=True).step,
        numpy_reset_after_state,
        3,
        ["hidden"],
        [GATES, (UNITS, UNITS)],
    ),
    "context": (ContextGRUStep(), numpy_context_state, 3, ["hidden"], [(UNITS, 3 * UNITS), (BATCH, 3 * UNITS)]),
    "lstm": (LSTMCell(UNITS).step, numpy_lstm_state, 4, ["hidden", "cell"], [(UNITS, 4 * UNITS)]),
    "rnn": (RNNCell(UNITS).step, numpy_rnn_state, 1, ["hidden"], [(UNITS, UNITS)]),
}


def weighted_sum(states, weights):
    return sum(ops.sum(states[name] * ops.convert_to_tensor(weights[name])) for name in weights)


@pytest.mark.parametrize(
    "case, steps, automatic",
    [(case, steps, False) for case in CASES for steps in STEPS] + [("lstm", steps, True) for steps in STEPS],
)
def test_states_and_gradients_are_those_of_a_plain_loop(case, steps, automatic):
    step, numpy_step, gates, names, shapes = CASES[case]
    inputs = rng.normal(size=(BATCH, steps, gates * UNITS))
    state = {name: rng.normal(size=(BATCH, UNITS)) for name in names}
    parameters = [rng.normal(0, 0.5, size=shape) for shape in shapes]
    weights = {name: rng.normal(size=(BATCH, steps, UNITS)) for name in names}
    for mask in masks(steps):

        def loop(inputs, *rest, mask=mask):
            state, states = dict(zip(names, rest[: len(names)], strict=True)), []
            for t in range(steps):
                new = numpy_step(inputs[:, t], state, *rest[len(names) :])
                state = {name: where(mask, t, new[name], state[name]) for name in names}
                states.append(state)
            return {name: np.stack([s[name] for s in states], axis=1) for name in names}

        def run(inputs, *rest, mask=mask):
            state = dict(zip(names, rest[: len(names)], strict=True))
            plain = (lambda *now: step(*now)) if automatic else step
            return run_recurrence(plain, inputs, state, list(rest[len(names) :]), mask)

        arguments = [inputs, *state.values(), *parameters]
        expected = loop(*arguments)
        with double_precision():
            for total, found, gradients in gradients_of(lambda *a: weighted_sum(run(*a), weights), arguments, run):
                for name in names:
                    np.testing.assert_allclose(found[name], expected[name], atol=EXACT, err_msg=total)
                for argument, gradient in zip(arguments, gradients, strict=True):
                    assert gradient.dtype == argument.dtype == "float64"
                check_gradients(
                    lambda *a: sum((loop(*a)[name] * weights[name]).sum() for name in names), arguments, gradients
                )


def check_gradients(function, arguments, gradients):
    """Compares gradients with central differences along random directions."""
    directions = [rng.normal(size=argument.shape) for argument in arguments]
    for i, direction in enumerate(directions):
        ends = []
        for sign in (1e-5, -1e-5):
            moved = [a + sign * direction if j == i else a for j, a in enumerate(arguments)]
            ends.append(function(*moved))
        slope = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(slope, (gradients[i] * direction).sum(), rtol=1e-5, atol=10 * EXACT + 1e-8)


def window_step(ids, state, parameters):
    """A step with everything at once: word ids, a window of ids, a state of rank 3, a memory with a mask."""
    table, memory, present = parameters["table"], parameters["memory"], parameters["present"]
    window = ops.concatenate([state["window"][:, 1:], ops.expand_dims(ids, 1)], axis=1)
    read = ops.sum(ops.take(table, window, axis=0), axis=1)
    scores = ops.where(present, ops.einsum("bsw,bw->bs", memory, read), -1e9)
    context = ops.einsum("bs,bsw->bw", ops.softmax(scores), memory)
    grown, (count, pair) = ops.expand_dims(context, 1) * state["matrix"] * 0.5, state["nested"]
    return {"window": window, "matrix": grown + ops.expand_dims(read, 1), "nested": (count + 1, pair + context)}


class WindowStep(RecurrentStep):
    """A step with a hand-written gradient; only a part of its state has a gradient."""

    def forward(self, inputs_t, state, parameters):
        ids, x = inputs_t
        scale = parameters[0]
        new = state["sum"] * ops.cast(ops.expand_dims(state["window"][:, 1:], -1), x.dtype) * scale
        window = ops.concatenate([state["window"][:, 1:], ops.expand_dims(ids, 1)], axis=1)
        return {"window": window, "sum": new + ops.expand_dims(x, 1)}, ()

    def backward(self, d_state, state, saved, parameters):
        assert d_state["window"] is None
        factor = ops.cast(ops.expand_dims(state["window"][:, 1:], -1), d_state["sum"].dtype)
        d_sum, product = d_state["sum"] * factor * parameters[0], d_state["sum"] * factor * state["sum"]
        return (None, d_state["sum"][:, 0]), {"window": None, "sum": d_sum}, product

    def parameter_gradients(self, factors):
        return [ops.sum(factors, axis=(0, 1, 2)), None]


@pytest.mark.parametrize("steps", [6, 19])
def test_a_state_of_any_structure_rank_and_dtype(steps):
    ids = rng.integers(0, 5, (BATCH, steps)).astype("int32")
    table, memory = rng.normal(0, 0.3, size=(5, 2)), rng.normal(size=(BATCH, 3, 2))
    matrix, pair = rng.normal(size=(BATCH, 3, 2)), rng.normal(size=(BATCH, 2))
    present = np.array([[True, True, False], [True] * 3, [True, False, False]])
    mask = masks(steps)[1]

    def run(ids, matrix, pair, table, memory):
        state = {
            "window": ops.zeros((BATCH, 3), "int32"),
            "matrix": matrix,
            "nested": (ops.zeros((BATCH,), "int32"), pair),
        }
        parameters = {"table": table, "memory": memory, "present": ops.convert_to_tensor(present)}
        return run_recurrence(window_step, ids, state, parameters, mask)

    def loop(matrix, pair, table, memory):
        window, count, states = np.zeros((BATCH, 3), int), np.zeros(BATCH, int), []
        for t in range(steps):
            new = np.concatenate([window[:, 1:], ids[:, t : t + 1]], axis=1)
            read = table[new].sum(axis=1)
            scores = np.where(present, np.einsum("bsw,bw->bs", memory, read), -1e9)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            context = np.einsum("bs,bsw->bw", weights / weights.sum(axis=1, keepdims=True), memory)
            news = new, context[:, None] * matrix * 0.5 + read[:, None], count + 1, pair + context
            window, matrix, count, pair = (
                where(mask, t, new, old) for new, old in zip(news, (window, matrix, count, pair), strict=True)
            )
            states.append((window, matrix, count, pair))
        return [np.stack(values, axis=1) for values in zip(*states, strict=True)]

    arguments = [ids, matrix, pair, table, memory]
    expected, weights = loop(*arguments[1:]), rng.normal(size=(BATCH, steps, 2))

    def total(*tensors):
        states = run(*tensors)
        return ops.sum(states["nested"][1] * ops.convert_to_tensor(weights)) + ops.sum(ops.square(states["matrix"]))

    def numpy_total(*arrays):
        _, matrix, _, pair = loop(*arrays)
        return (pair * weights).sum() + (matrix**2).sum()

    with double_precision():
        for way, states, gradients in gradients_of(total, arguments, run):
            found = [states["window"], states["matrix"], *states["nested"]]
            for value, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(value, wanted, atol=EXACT, err_msg=way)
            assert [value.dtype for value in found] == ["int32", "float64", "int32", "float64"]
            check_gradients(numpy_total, arguments[1:], gradients)


@pytest.mark.parametrize("steps", [6, 19])
def test_a_hand_written_gradient_with_integers_in_the_state(steps):
    """The gradient is that of automatic differentiation."""
    ids = rng.integers(1, 3, (BATCH, steps)).astype("int32")
    x, first, scale = rng.normal(size=(BATCH, steps, 4)), rng.normal(size=(BATCH, 1, 4)), rng.normal(size=(4,))
    mask, results = masks(steps)[1], []

    def run(step, x, first, scale):
        state = {"window": ops.ones((BATCH, 2), "int32"), "sum": first}
        unused = ops.ones((2, 2), "bool")
        return run_recurrence(step, (ops.convert_to_tensor(ids), x), state, [scale, unused], mask)

    for step in (WindowStep(), lambda *now: WindowStep()(*now)):

        def states(*tensors, step=step):
            return run(step, *tensors)

        with double_precision():
            results.append(
                list(gradients_of(lambda *a: ops.sum(ops.square(states(*a)["sum"])), [x, first, scale], states))
            )
    for (way, *hand_written), (_, *automatic) in zip(*results, strict=True):
        for a, b in zip(keras.tree.flatten(hand_written), keras.tree.flatten(automatic), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9, rtol=1e-6, err_msg=way)


def test_inputs_without_steps_are_refused():
    inputs, state = ops.zeros((2, 0, 3)), ops.zeros((2, 3))
    for step in (RNNCell(3).step, lambda inputs_t, state, parameters: state + inputs_t):
        with pytest.raises(ValueError, match="found inputs without steps, expected at least one step"):
            run_recurrence(step, inputs, state)
    with pytest.raises(ValueError, match="found inputs without steps"):
        GRU(3)(inputs)


@pytest.mark.parametrize("steps", [5, 19])
def test_a_plain_function_may_close_over_tensors(steps):
    """Gradients flow to a layer's weights and to tensors that are not parameters."""
    dense = keras.layers.Dense(4, activation="tanh")
    x = rng.normal(size=(BATCH, steps, 4)).astype("float32")

    class Along(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.before, self.dense = keras.layers.Dense(4), dense

        def build(self, shape):
            self.before.build((None, 4)), self.dense.build((None, 4))
            self.built = True

        def call(self, inputs):
            context = self.before(inputs[:, 0])
            return run_recurrence(lambda now, state, _: self.dense(now + state + context), inputs, context)

    model = keras.Sequential([keras.Input((steps, 4)), Along()])
    model.compile("sgd", "mse", jit_compile=keras.backend.backend() != "torch")
    before = model.get_weights()
    model.fit(x, np.ones((BATCH, steps, 4)), verbose=0)
    assert all((old != new).any() for old, new in zip(before, model.get_weights(), strict=True))
