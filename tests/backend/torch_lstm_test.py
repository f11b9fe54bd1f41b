"""The LSTM that oneDNN computes, against the same LSTM step by step, on a CPU under PyTorch."""

import keras
import numpy as np
import pytest

from keras_encdec.layers import LSTMCell

if keras.backend.backend() != "torch":
    pytest.skip("an operation of PyTorch", allow_module_level=True)

import torch

from keras_encdec.backend import torch_int8, torch_lstm, torch_products

if not torch_products.onednn_is_available():
    pytest.skip("PyTorch has no oneDNN here", allow_module_level=True)

BATCH, TIME, FEATURES, UNITS = 4, 6, 5, 3
STEPS = np.arange(TIME)
LENGTHS = np.array([6, 2, 0, 5])[:, None]
FOLLOWS, PRECEDES = STEPS < LENGTHS, STEPS >= TIME - LENGTHS
MASKS = {
    "no mask": None,
    "no padding": np.ones((BATCH, TIME), bool),
    "padding follows": FOLLOWS,
    "integers": 3 * FOLLOWS,
}


@pytest.fixture
def calls(monkeypatch):
    """The arguments of PyTorch's operation."""
    found, operation = [], torch.lstm
    monkeypatch.setattr(torch, "lstm", lambda *args, **named: found.append(args) or operation(*args, **named))
    return found


def lstm(cls=LSTMCell):
    keras.utils.set_random_seed(1)
    cell = cls(UNITS, keras.initializers.RandomNormal(stddev=0.8))
    cell.build((None, FEATURES))
    cell.bias.assign(np.random.default_rng(1).normal(size=4 * UNITS))
    return cell


def state(zero=False, needs_gradient=True):
    random = np.random.default_rng(2)
    tensors = [torch.tensor(random.normal(size=(BATCH, UNITS)).astype("float32") * (not zero)) for _ in range(2)]
    return [tensor.requires_grad_(needs_gradient) for tensor in tensors]


def results(cell, run, mask, hidden, last):
    """Computes the outputs, the last state, and the gradients of everything."""
    random = np.random.default_rng(3)
    inputs = torch.tensor(random.normal(size=(BATCH, TIME, FEATURES)).astype("float32"), requires_grad=True)
    weights = [variable.value for variable in cell.weights]
    mask = None if mask is None else torch.tensor(mask)
    outputs, end = run(inputs, {"hidden": hidden, "cell": last}, mask)
    tensors = [outputs, end["hidden"], end["cell"]]
    assert list(end) == ["hidden", "cell"]
    total = sum((tensor * torch.tensor(random.normal(size=tensor.shape))).sum() for tensor in tensors)
    arguments = [inputs, *weights, *(tensor for tensor in (hidden, last) if tensor.requires_grad)]
    return [tensor.detach().numpy() for tensor in (*tensors, *torch.autograd.grad(total, arguments))]


def step_by_step(cell):
    return lambda inputs, *others: cell.run_projected(cell.project_inputs(inputs), *others)


def assert_equal(found, expected):
    assert len(found) == len(expected)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("zero", [True, False], ids=["zero", "first state"])
def test_states_and_gradients_equal_those_step_by_step(mask, zero, calls):
    cell = lstm()
    found = results(cell, cell.run, MASKS[mask], *state(zero))
    assert len(calls) == 1
    assert_equal(found, results(cell, step_by_step(cell), MASKS[mask], *state(zero)))


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_can_be_differentiated(mask, calls):
    cell = lstm()
    inputs = torch.tensor(np.random.default_rng(3).normal(size=(BATCH, TIME, FEATURES)).astype("float32"))
    hidden, last = state()
    given = None if MASKS[mask] is None else torch.tensor(MASKS[mask])
    tensors = [inputs.requires_grad_(), *(variable.value for variable in cell.weights), hidden, last]

    def gradients_of_the_norm(run):
        outputs, end = run(inputs, {"hidden": hidden, "cell": last}, given)
        total = (outputs**2).sum() + (end["cell"] ** 3).sum()
        gradients = torch.autograd.grad(total, tensors, create_graph=True)
        return [tensor.numpy() for tensor in torch.autograd.grad(sum((g**2).sum() for g in gradients), tensors)]

    found = gradients_of_the_norm(cell.run)
    assert len(calls) == 1
    for mine, other in zip(found, gradients_of_the_norm(step_by_step(cell)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-5 * np.abs(other).max())


def test_padding_may_precede_the_steps_if_the_first_state_is_zero(calls):
    cell = lstm()
    found = results(cell, cell.run, PRECEDES, *state(zero=True, needs_gradient=False))
    assert len(calls) == 1
    assert_equal(found, results(cell, step_by_step(cell), PRECEDES, *state(zero=True, needs_gradient=False)))


@pytest.mark.parametrize(
    ("mask", "first"),
    [
        (PRECEDES, {"zero": False, "needs_gradient": False}),
        (PRECEDES, {"zero": True}),  # whose gradient would be wrong
        (STEPS % 3 != LENGTHS % 3, {"zero": True, "needs_gradient": False}),
    ],
    ids=["first state", "gradient of the first state", "padding in between"],
)
def test_other_padding_is_skipped_step_by_step(mask, first, calls):
    cell = lstm()
    found = results(cell, cell.run, mask, *state(**first))
    assert not calls
    assert_equal(found, results(cell, step_by_step(cell), mask, *state(**first)))


def test_the_cell_keeps_its_value_on_padding_to_the_last_digit(calls):
    cell = lstm()
    inputs, mask = torch.ones(BATCH, TIME, FEATURES) * 50, torch.zeros(BATCH, TIME, dtype=torch.bool)
    hidden, last = state(needs_gradient=False)
    inputs[1], hidden[2] = 1e8, 1e8
    with torch.inference_mode():
        outputs, end = cell.run(inputs, {"hidden": hidden, "cell": last}, mask)
    assert len(calls) == 1
    assert torch.equal(end["cell"], last) and torch.equal(end["hidden"], hidden)
    assert torch.equal(outputs, hidden[:, None].expand_as(outputs))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e8])
def test_inputs_on_padding_have_no_effect(value, calls):
    cell, inputs = lstm(), torch.ones(BATCH, TIME, FEATURES)
    for mask in (FOLLOWS, PRECEDES):
        wild = inputs.masked_fill(torch.tensor(~mask)[:, :, None], value)
        expected, _ = cell.run(inputs, cell.initial_state(BATCH), mask)
        outputs, end = cell.run(wild, cell.initial_state(BATCH), mask)
        assert torch.equal(outputs, expected) and end["cell"].isfinite().all()
    assert len(calls) == 4


@pytest.mark.parametrize("name", ["inputs", "hidden", "cell"])
def test_arrays_are_converted(name, calls):
    cell, (hidden, last), inputs = lstm(), state(needs_gradient=False), torch.ones(BATCH, TIME, FEATURES)
    tensors = {"inputs": inputs, "hidden": hidden, "cell": last}
    expected, outputs = (
        cell.run(values["inputs"], {"hidden": values["hidden"], "cell": values["cell"]})[0]
        for values in (tensors, {**tensors, name: tensors[name].numpy()})
    )
    assert len(calls) == 2 and torch.equal(outputs, expected)


# The operation would read and write beyond the tensors.
@pytest.mark.parametrize(
    ("inputs", "first"),
    [
        ((BATCH, TIME, FEATURES - 1), (BATCH, UNITS)),
        ((BATCH, TIME, FEATURES + 1), (BATCH, UNITS)),
        ((BATCH, TIME, FEATURES), (BATCH - 1, UNITS)),
        ((BATCH, TIME, FEATURES), (BATCH, UNITS - 1)),
        ((BATCH, FEATURES), (BATCH, UNITS)),
    ],
)
def test_tensors_that_do_not_fit_together_are_refused(inputs, first, calls):
    with pytest.raises(RuntimeError):
        lstm().run(torch.ones(inputs), {"hidden": torch.ones(first), "cell": torch.ones(first)})
    assert not calls


def test_one_state_for_all_rows_is_broadcast_step_by_step(calls):
    cell, first = lstm(), {part: tensor[:1] for part, tensor in lstm().initial_state(BATCH).items()}
    outputs, _ = cell.run(torch.ones(BATCH, TIME, FEATURES), first, np.ones((1, TIME), bool))
    assert not calls and outputs.shape == (BATCH, TIME, UNITS)


@pytest.mark.parametrize(
    "context",
    [lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.backends.mkldnn.flags(enabled=False)],
    ids=["autocast", "without oneDNN"],
)
@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_other_products_than_those_of_onednn_are_computed_step_by_step(context, calls):
    cell = lstm()
    with context():
        outputs, _ = cell.run(torch.ones(BATCH, TIME, FEATURES), cell.initial_state(BATCH))
    assert not calls and outputs.dtype == torch.float32


class _WithoutForgetting(LSTMCell):
    def parameters(self):
        return [torch.zeros(UNITS, 4 * UNITS)]


@pytest.mark.parametrize("cls", [LSTMCell, _WithoutForgetting])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_only_float32_of_the_cell_itself_is_computed_by_onednn(cls, dtype, calls):
    cell = cls(UNITS, dtype=dtype)
    cell.build((None, FEATURES))
    inputs = torch.ones(BATCH, TIME, FEATURES, dtype=getattr(torch, dtype))
    outputs, _ = cell.run(inputs, cell.initial_state(BATCH))
    assert len(calls) == (cls is LSTMCell and dtype == "float32")
    assert outputs.dtype == inputs.dtype
    expected, _ = step_by_step(cell)(inputs, cell.initial_state(BATCH))
    torch.testing.assert_close(outputs, expected)


@pytest.mark.skipif(not torch_int8.int8_is_available(), reason="PyTorch has no fast products with 8 bits here")
def test_products_of_8_bits_stay_products_of_8_bits(calls):
    cell = lstm()
    with torch.inference_mode(), torch_int8.Int8Products(cell):
        cell.run(torch.ones(BATCH, TIME, FEATURES), cell.initial_state(BATCH))
    assert not calls


@pytest.mark.parametrize(
    ("batch", "time", "features", "units", "is_faster"),
    [(1, 1, 100, 100, True), (1, 10, 1000, 1000, False), (64, 20, 1000, 1000, True), (0, 5, 4, 4, False)],
)
def test_few_steps_of_many_units_do_not_pay_for_the_layout_of_the_weights(batch, time, features, units, is_faster):
    inputs, cell = torch.empty(batch, time, features), torch.empty(batch, units)
    assert torch_lstm._is_faster(inputs, cell) == is_faster
