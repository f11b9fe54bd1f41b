"""The LSTM that oneDNN computes, against the same LSTM step by step, on a CPU under PyTorch."""

import keras
import numpy as np
import pytest

from keras_encdec.layers import LSTMCell

if keras.backend.backend() != "torch":
    pytest.skip("an operation of PyTorch", allow_module_level=True)

import torch

from keras_encdec.backend import torch_lstm, torch_products

if not torch_products.onednn_is_available():
    pytest.skip("PyTorch has no oneDNN here", allow_module_level=True)

BATCH, TIME, FEATURES, UNITS = 4, 6, 5, 3
STEPS = np.arange(TIME)
LENGTHS = np.array([6, 2, 0, 5])[:, None]
FOLLOWS, PRECEDES = STEPS < LENGTHS, STEPS >= TIME - LENGTHS
MASKS = {"no mask": None, "no padding": np.ones((BATCH, TIME), bool), "padding follows": FOLLOWS}


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
    with torch.inference_mode():
        outputs, end = cell.run(inputs, {"hidden": hidden, "cell": last}, mask)
    assert len(calls) == 1
    assert torch.equal(end["cell"], last) and torch.equal(end["hidden"], hidden)
    assert torch.equal(outputs, hidden[:, None].expand_as(outputs))


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


@pytest.mark.skipif(not torch_products.int8_is_available(), reason="PyTorch has no fast products with 8 bits here")
def test_products_of_8_bits_stay_products_of_8_bits(calls):
    cell = lstm()
    with torch.inference_mode(), torch_products.Int8Products(cell):
        cell.run(torch.ones(BATCH, TIME, FEATURES), cell.initial_state(BATCH))
    assert not calls


@pytest.mark.parametrize(
    ("batch", "time", "features", "units", "is_faster"),
    [(1, 1, 100, 100, True), (1, 10, 1000, 1000, False), (64, 20, 1000, 1000, True), (0, 5, 4, 4, False)],
)
def test_few_steps_of_many_units_do_not_pay_for_the_layout_of_the_weights(batch, time, features, units, is_faster):
    inputs, cell = torch.empty(batch, time, features), torch.empty(batch, units)
    assert torch_lstm._is_faster(inputs, cell) == is_faster
