"""The hand-written gradient of input feeding, with dropout, is that of automatic differentiation."""

import keras
import numpy as np
import pytest
from gradients import double_precision, gradients_of
from keras import ops
from layer_checks import numpy

from keras_encdec.layers import (
    GlobalAttention,
    GRUCell,
    LocalMonotonicAttention,
    LocalPredictiveAttention,
    RNNCell,
    run_recurrence,
)
from keras_encdec.layers.attention_step import AttentionStep, InputFeedingStep
from keras_encdec.models import RecurrentEncoderDecoder, attention_decoder, recurrent_layers
from keras_encdec.scoring import Scorer

BATCH, STEPS, SOURCE_TIME, UNITS = 2, 3, 4, 3
SHAPES = {
    "gru": {"projected": 3 * UNITS, "cells": [[(UNITS, 2 * UNITS), (UNITS, UNITS)]] * 2, "gates": 3},
    "rnn": {"projected": UNITS, "cells": [[(UNITS, UNITS)]] * 2, "gates": 1},
}
CELLS = {"gru": GRUCell, "rnn": RNNCell}


@pytest.mark.parametrize("cell, attention", [("gru", AttentionStep(1)), ("rnn", AttentionStep(1, predictive=True))])
def test_gradients_are_those_of_automatic_differentiation(cell, attention):
    rng, gates = np.random.default_rng(0), SHAPES[cell]["gates"]
    step = InputFeedingStep([CELLS[cell](UNITS).step] * 2, ["hidden"], attention, dropout=0.4)
    kept = rng.random((BATCH, STEPS, 2, UNITS)) > 0.4
    mask = np.array([[True] * SOURCE_TIME, [True, True, False, False]])
    shapes = [
        (BATCH, STEPS, gates * UNITS),
        (BATCH, UNITS),
        (BATCH, UNITS),
        (BATCH, UNITS),
        (BATCH, SOURCE_TIME, UNITS),
        (BATCH, SOURCE_TIME, UNITS),
        (UNITS, gates * UNITS),
        (UNITS, UNITS),
        (UNITS, gates * UNITS),
        (gates * UNITS,),
        (UNITS, UNITS),
        (UNITS, 1),
        *SHAPES[cell]["cells"][0],
        *SHAPES[cell]["cells"][1],
    ]
    arguments = [rng.normal(0, 0.6, shape) for shape in shapes]
    widths = {"attentional": UNITS, "hidden_1": UNITS, "attention": SOURCE_TIME}
    weights = {name: rng.normal(size=(BATCH, STEPS, width)) for name, width in widths.items()}

    def run(step, projected, first, second, fed, keys, values, feeding, W_h, kernel, bias, W_p, v_p, *cells):
        parameters = {
            "keys": keys,
            "values": values,
            "mask": mask,
            "feeding": feeding,
            "state_projection": W_h,
            "kernels": [kernel],
            "biases": [bias],
            "cells": [list(cells[: len(cells) // 2]), list(cells[len(cells) // 2 :])],
        }
        state = {"hidden_1": first, "hidden_2": second, "attentional": fed, "attention": np.zeros((BATCH, SOURCE_TIME))}
        if attention.predictive:
            parameters.update(position_kernel=W_p, position_vector=v_p)
        else:
            state["position"] = np.zeros((BATCH, 1), "int32")
        return run_recurrence(step, {"projected": projected, "kept": kept}, state, parameters)

    def total(states):
        return sum(ops.sum(states[name] * ops.convert_to_tensor(weight)) for name, weight in weights.items())

    with double_precision():
        found, expected = (
            {
                way: gradients
                for way, _, gradients in gradients_of(
                    lambda *a, one=one: total(run(one, *a)) + sum(map(ops.sum, a)), arguments, lambda *a: a[0]
                )
                if way != "unknown length"
            }
            for one in (step, lambda *now: step(*now))
        )
    for way, gradients in found.items():
        for ours, theirs in zip(gradients, expected[way], strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)
            assert np.abs(ours).max() > 1e-3


@pytest.mark.parametrize("kind", [GlobalAttention, LocalMonotonicAttention, LocalPredictiveAttention])
def test_a_subclass_of_an_attention_computes_its_own_weights_in_training_and_in_scoring(kind, monkeypatch):
    class HalfAttention(kind):
        def attention_weights(self, *arguments):
            return super().attention_weights(*arguments) / 2

    sizes = {"layers": 1, "units": 8, "embedding_dim": 4, "initial_scale": 1.0}
    source, target = np.array([[5, 7, 2], [4, 2, 0]]), np.array([[6, 3, 2], [8, 9, 2]])
    scores = {}
    for cls in (kind, HalfAttention):
        monkeypatch.setattr(attention_decoder, "attention_class", lambda name, cls=cls: cls)
        keras.utils.set_random_seed(0)
        model = RecurrentEncoderDecoder(20, 30, attention="global", **sizes)
        scores[cls] = numpy(model.score(source, target))
        pairs = [([i for i in x if i], y) for x, y in zip(source.tolist(), target.tolist(), strict=True)]
        np.testing.assert_allclose(Scorer(model).score(pairs), scores[cls], atol=1e-5)
    assert (np.abs(scores[kind] - scores[HalfAttention]) > 0.01).all()


@pytest.mark.parametrize("score", ["general", "concat"])
def test_a_cell_projects_its_inputs_in_its_own_way_in_every_layer(score, monkeypatch):
    class HalfCell(GRUCell):
        def project_inputs(self, inputs):
            return super().project_inputs(inputs) / 2

    monkeypatch.setattr(recurrent_layers, "recurrent_cell_class", lambda name: HalfCell)
    keras.utils.set_random_seed(0)
    sizes = {"layers": 2, "units": 8, "embedding_dim": 4, "initial_scale": 1.0}
    model = RecurrentEncoderDecoder(20, 30, attention="global", attention_score=score, **sizes)
    found = Scorer(model).score([([5, 7, 2], [6, 3, 2]), ([4, 3, 2], [8, 9, 2])])
    expected = model.score(np.array([[5, 7, 2], [4, 3, 2]]), np.array([[6, 3, 2], [8, 9, 2]]))
    np.testing.assert_allclose(found, numpy(expected), atol=1e-5)
    model.compile("sgd", jit_compile=False)
    before = numpy(model.decoder.cells[1].kernel)
    model.fit({"source": np.array([[5, 7, 2]]), "target": np.array([[6, 3, 2]])}, verbose=0)
    assert (numpy(model.decoder.cells[1].kernel) != before).any()


def test_a_cell_without_a_hand_written_gradient_computes_the_same(monkeypatch):
    class PlainCell(GRUCell):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            step = self.step
            self.step = lambda *now: step(*now)

    source, target = np.array([[5, 7, 2], [4, 2, 0]]), np.array([[6, 3, 2], [8, 9, 2]])
    sizes = {"layers": 2, "units": 8, "embedding_dim": 4, "initial_scale": 1.0}
    scores = []
    for cls in (GRUCell, PlainCell):
        monkeypatch.setattr(recurrent_layers, "recurrent_cell_class", lambda name, cls=cls: cls)
        keras.utils.set_random_seed(0)
        scores.append(numpy(RecurrentEncoderDecoder(20, 30, attention="global", **sizes).score(source, target)))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-5)
