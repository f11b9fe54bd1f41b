"""Attention as layers of any Keras model; the models' tests compare them with the equations."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import check_layer, numpy

from keras_encdec.architectures.configurations import ATTENTIONS
from keras_encdec.layers import (
    Attention,
    GlobalAttention,
    LocalMonotonicAttention,
    LocalPredictiveAttention,
    attention_class,
    attention_names,
    register_attention,
)

rng = np.random.default_rng(0)
QUERIES, ANNOTATIONS = (rng.normal(size=shape).astype("float32") for shape in ((3, 4, 6), (3, 7, 6)))


@pytest.mark.parametrize(
    "cls, config, weights",
    [
        (GlobalAttention, {"score": "dot"}, 0),
        (GlobalAttention, {"score": "concat", "score_units": 5}, 3),
        (LocalMonotonicAttention, {"score": "general", "half_width": 2}, 1),
        (LocalPredictiveAttention, {"score": "general", "half_width": 2}, 3),
    ],
)
def test_behaves_as_a_keras_layer(cls, config, weights, tmp_path):
    check_layer(cls, config, [QUERIES, ANNOTATIONS], (3, 4, 6), weights, tmp_path)


@pytest.mark.parametrize("name", ["global", "local_m", "local_p"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "bfloat16"])
def test_weights_are_float32_and_zero_on_padding(name, policy):
    layer = attention_class(name)(dtype=policy)
    mask = np.arange(7) < np.array([[7], [4], [0]])
    context, weights = layer(QUERIES, ANNOTATIONS, annotations_mask=mask, return_weights=True)
    assert keras.backend.standardize_dtype(weights.dtype) == "float32"
    weights = numpy(weights)
    assert (weights[:, 0] > 0).tolist() == mask.tolist(), "no weight on padding; none at all where all is padding"
    if name != "local_p":
        np.testing.assert_allclose(weights.sum(axis=-1)[:2], 1, atol=1e-6)
    np.testing.assert_allclose(numpy(context), weights @ ANNOTATIONS, atol=1e-5 if policy == "float32" else 0.05)


def test_the_mask_comes_from_the_layer_that_made_the_annotations():
    queries, source = keras.Input((None, 6)), keras.Input((None,), dtype="int32")
    annotations = keras.layers.Embedding(9, 6, mask_zero=True)(source)
    model = keras.Model([queries, source], GlobalAttention("dot")(queries, annotations, return_weights=True))
    _, weights = model([QUERIES, np.array([[3, 4, 0], [5, 0, 0], [6, 7, 8]], "int32")])
    assert (numpy(weights)[:, 0] > 0).tolist() == [[True, True, False], [True, False, False], [True] * 3]


def test_the_mask_of_the_queries_is_passed_to_the_next_layer():
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    annotations, queries = (keras.layers.Embedding(9, 6, mask_zero=True)(side) for side in (source, target))
    model = keras.Model([source, target], keras.layers.LSTM(3)(GlobalAttention()(queries, annotations)))
    read = np.array([[3, 4, 0]], "int32")
    short, padded = (numpy(model([read, np.array([ids], "int32")])) for ids in ([5, 6], [5, 6, 0, 0]))
    np.testing.assert_allclose(padded, short, atol=1e-6)


def test_the_initializer_fills_all_weights_and_score_units_is_the_width_of_the_score():
    layer = LocalPredictiveAttention("concat", score_units=5, kernel_initializer="ones")
    layer(QUERIES, ANNOTATIONS)
    assert [weight.shape for weight in layer.weights] == [(6, 6), (6, 1), (6, 5), (6, 5), (5, 1)]
    assert all((numpy(weight) == 1).all() for weight in layer.weights)


@pytest.mark.filterwarnings("error:.*softmax over axis")
@pytest.mark.parametrize("layer", [GlobalAttention("dot"), LocalPredictiveAttention("concat", half_width=2)])
def test_a_single_position_gets_the_weight_1(layer):
    mask = np.array([[True], [True], [False]])
    _, weights = layer(QUERIES, ANNOTATIONS[:, :1], annotations_mask=mask, return_weights=True)
    assert numpy(weights).tolist() == [[[1.0]] * 4] * 2 + [[[0.0]] * 4]


def test_positions_may_begin_anywhere():
    layer = LocalMonotonicAttention("dot", half_width=1)
    _, weights = layer(QUERIES, ANNOTATIONS, return_weights=True)
    _, later = layer(QUERIES[:, 2:], ANNOTATIONS, positions=np.array([[2, 3]] * 3), return_weights=True)
    np.testing.assert_allclose(numpy(later), numpy(weights)[:, 2:], atol=1e-6)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GlobalAttention("product"), "score='product', expected one of dot, general, concat"),
        (lambda: GlobalAttention("dot", score_units=3), "score_units=3 with score='dot'"),
        (lambda: GlobalAttention("concat", score_units="3"), "score_units='3', expected a whole number, 1 or more"),
        (lambda: LocalMonotonicAttention(half_width=0), "half_width=0, expected a whole number, 1 or more"),
        (lambda: LocalMonotonicAttention(half_width=1.5), "half_width=1.5, expected a whole number, 1 or more"),
        (lambda: GlobalAttention("dot")(QUERIES[:, 0], ANNOTATIONS), "expected ndim=3, found ndim=2"),
        (lambda: GlobalAttention("dot")(QUERIES, ANNOTATIONS[:, :, :5]), "width 6 and annotations of width 5"),
        (lambda: attention_class("hard"), "attention='hard', expected one of none, global, local_m, local_p"),
        (
            lambda: register_attention("global")(LocalMonotonicAttention),
            "a new name for .*LocalMonotonicAttention$",
        ),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_new_kind_of_attention_defines_only_its_window():
    class FirstWord(Attention):
        def window(self, queries, mask, positions=None):
            return ops.logical_and(ops.expand_dims(mask, 1), ops.arange(ops.shape(mask)[1]) == 0), None

    assert "global" in attention_names()
    assert ["none", *attention_names()] == ATTENTIONS.choices
    context = FirstWord("dot")(QUERIES, ANNOTATIONS)
    np.testing.assert_allclose(numpy(context), np.repeat(ANNOTATIONS[:, :1], 4, axis=1), atol=1e-6)
    with pytest.raises(NotImplementedError, match="found Attention without window, expected a class that defines it"):
        Attention("dot").window(QUERIES, None)
