import keras
import numpy as np
import pytest
from layer_checks import check_saved_in_a_new_process, numpy
from oracle import sigmoid

from keras_encdec.layers import ContextGRUCell, run_recurrence

rng = np.random.default_rng(0)
INPUTS = rng.normal(size=(3, 5, 4)).astype("float32")
STATE = rng.normal(size=(3, 6)).astype("float32")
CONTEXT = rng.normal(size=(3, 2)).astype("float32")


def stirred_rnn():
    rnn = keras.layers.RNN(ContextGRUCell(6, context_units=2))
    symbolic = [keras.Input(shape) for shape in [(5, 4), (6,), (2,)]]
    model = keras.Model(symbolic, rnn(symbolic[0], initial_state=symbolic[1:]))
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return rnn.cell, model


def test_follows_the_equations_in_keras_rnn(tmp_path):
    cell, model = stirred_rnn()
    W, U, C, b = (np.split(numpy(w).astype("float64"), 3, -1) for w in cell.trainable_variables)
    h, c = STATE.astype("float64"), CONTEXT.astype("float64")
    for x in INPUTS.swapaxes(0, 1).astype("float64"):
        r, z = (sigmoid(x @ W[i] + h @ U[i] + c @ C[i] + b[i]) for i in (0, 1))
        h = z * h + (1 - z) * np.tanh(x @ W[2] + b[2] + r * (h @ U[2] + c @ C[2]))
    np.testing.assert_allclose(model.predict([INPUTS, STATE, CONTEXT], verbose=0), h, atol=1e-5)
    check_saved_in_a_new_process(model, [INPUTS, STATE, CONTEXT], h, tmp_path)


def test_projecting_once_equals_projecting_at_every_step():
    cell, model = stirred_rnn()
    parameters = cell.context_parameters(cell.project_context(CONTEXT))
    states = run_recurrence(cell.step, cell.project_inputs(INPUTS), {"hidden": STATE}, parameters)
    expected = model.predict([INPUTS, STATE, CONTEXT], verbose=0)
    np.testing.assert_allclose(numpy(states["hidden"][:, -1]), expected, atol=1e-6)
    outputs, last = cell.run(INPUTS, {"hidden": STATE, "context": CONTEXT})
    np.testing.assert_array_equal(numpy(outputs), numpy(states["hidden"]))
    np.testing.assert_array_equal(numpy(outputs[:, -1]), numpy(last["hidden"]))
    np.testing.assert_array_equal(numpy(last["context"]), CONTEXT)
    assert {name: zeros.shape[-1] for name, zeros in cell.initial_state(1).items()} == {"hidden": 6, "context": 2}


def test_config_round_trips_and_low_precision_runs():
    cell = ContextGRUCell(6, context_units=2)
    assert ContextGRUCell.from_config(cell.get_config()).get_config() == cell.get_config()
    assert (cell.units, cell.context_units, ContextGRUCell(6).context_units) == (6, 2, 6)
    with pytest.raises(ValueError, match="found context_units=0, expected a whole number, 1 or more"):
        ContextGRUCell(6, context_units=0)
    for policy in ("mixed_bfloat16", "bfloat16"):
        output, states = ContextGRUCell(6, context_units=2, dtype=policy)(INPUTS[:, 0], [STATE, CONTEXT])
        assert keras.backend.standardize_dtype(output.dtype) == "bfloat16" and np.isfinite(numpy(output)).all()
        assert output is states[0] or np.array_equal(numpy(output), numpy(states[0]))
