"""Recurrent models with attention against the equations in float64 NumPy."""

import itertools

import keras
import numpy as np
import pytest
import recurrent_oracle
from gradients import assert_finite_differences, double_precision, gradients_by, in_one_program
from recurrent_toys import PAIRS, SOURCE, TARGET, nested_weights, toy

from keras_encdec.models import from_symbols, to_symbols

DOUBLE = 1e-9

KINDS = list(itertools.product(("global", "local_m", "local_p"), ("dot", "general", "concat"), (True, False)))
ENCODERS = [
    {"cell": "lstm", "bidirectional": "none", "reverse_source": True},
    {"cell": "gru", "bidirectional": "sum", "condition": "context"},
    {"cell": "rnn", "bidirectional": "concat", "reverse_source": True},
]
# Every kind of attention with every score, with and without input feeding; the encoders take turns.
CHOICES = [
    {
        "attention": kind,
        "attention_score": score,
        "input_feeding": fed,
        "attention_window": None if kind == "global" else 1 + fed,
        **ENCODERS[(i + i // 6) % (2 if score == "dot" else 3)],
    }
    for i, (kind, score, fed) in enumerate(KINDS)
]
# JAX compiles everything again for each choice.
EVERY = {"tensorflow": 1, "jax": 5, "torch": 1}[keras.backend.backend()]


def name_of(choices):
    return "-".join(str(value) for value in choices.values())


def choices_of(model):
    return model.config.to_dict()


def expected_of(model, weights=None):
    weights = weights or nested_weights(model)
    return [recurrent_oracle.decoded(weights, x, y, choices_of(model)) for x, y in PAIRS]


@pytest.mark.parametrize("choices", CHOICES[::EVERY], ids=name_of)
def test_every_choice_follows_the_equations_in_a_batch_and_word_by_word(choices):
    with double_precision():
        model = toy(dtype="float64", **choices)
        # A row that is all padding, and more padding in every row, do not change the results.
        source, target = (np.pad(ids, [[0, 1], [0, 3]]) for ids in (SOURCE, TARGET))
        tokens = keras.ops.convert_to_numpy(model.token_log_probs(source, target))
        expected = expected_of(model)
        by_word, attention = log_probs_by_word(model, source[:-1], TARGET)
    assert not tokens[-1].any()
    assert np.abs(np.concatenate([log_probs for log_probs, _ in expected])).max() > 1
    for row, (log_probs, weights) in enumerate(expected):
        steps, positions = weights.shape
        np.testing.assert_allclose(tokens[row, :steps], log_probs, atol=DOUBLE)
        np.testing.assert_allclose(by_word[row, :steps], log_probs, atol=DOUBLE)
        np.testing.assert_allclose(attention[row, :steps, :positions], weights, atol=DOUBLE)
        assert not attention[row, :, positions:].any()


def log_probs_by_word(model, source, target):
    """log p of each token and the attention of each step, computed by `start` and `next_log_probs`."""
    state, memory = in_one_program(model.start)(source)
    assert state.keys() == model.decoder.state_spec.keys() and memory.keys() == model.decoder.memory_spec.keys()
    for tensors, specs in ((state, model.decoder.state_spec), (memory, model.decoder.memory_spec)):
        for name, spec in specs.items():
            assert tensors[name].shape == (len(source), *spec.with_time(source.shape[1])), name
    step = in_one_program(model.decoder.next_log_probs)
    previous, rows, attention = np.zeros(len(source), "int32"), [], []
    for t in range(target.shape[1]):
        log_probs, state = step(previous, state, memory)
        previous = target[:, t]
        rows.append(keras.ops.convert_to_numpy(log_probs)[range(len(source)), previous])
        attention.append(keras.ops.convert_to_numpy(state["attention"]))
    return np.stack(rows, axis=1), np.stack(attention, axis=1)


@pytest.mark.parametrize("choices", [CHOICES[i] for i in (14, 8, 11, 0, 1, 5, 2, 15, 16)[::EVERY]], ids=name_of)
def test_gradients_are_finite_differences_of_the_equations(choices):
    with double_precision():
        model = toy(dtype="float64", **choices)
        weights = nested_weights(model)
        found = gradients_by(nested_weights, model, SOURCE, TARGET)

    def total(arrays):
        return sum(log_probs.sum() for log_probs, _ in expected_of(model, arrays))

    assert_finite_differences(found, total, weights, elements=3)


@pytest.mark.parametrize(
    "choices", [*CHOICES[4:6], *CHOICES[14:16], {"cell": "gru", "bidirectional": "sum"}], ids=name_of
)
def test_weights_are_read_and_set_by_symbols(choices):
    model, other = toy(**choices), toy(**choices)
    arrays = to_symbols(model)
    assert sum(array.size for array in arrays.values()) == model.count_params(), "each weight has one symbol"
    for variable in other.trainable_variables:
        variable.assign(np.zeros(variable.shape))
    from_symbols(other, arrays)
    for theirs, ours in zip(other.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(theirs, ours)


def test_symbols_are_those_of_the_equations():
    model = toy(attention="local_p", input_feeding=True)
    arrays, decoder = to_symbols(model), model.decoder
    names = {name.partition(".")[2] for name in arrays if name.startswith("attention.")}
    assert names == {"W_a", "W_p", "v_p", "W_c", "W_h"}
    feeding = keras.ops.convert_to_numpy(decoder.feeding.kernel)
    np.testing.assert_array_equal(np.hstack([arrays[f"decoder.F_{gate}.1"] for gate in "ifog"]), feeding)
    recurrent = keras.ops.convert_to_numpy(decoder.cells[1].recurrent_kernel)
    np.testing.assert_array_equal(np.hstack([arrays[f"decoder.U_{gate}.2"] for gate in "ifog"]), recurrent)
