"""Weights of exports that are stored smaller: what they are rounded to, and that servers compute with exactly these."""

import dataclasses
import gc
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import toy_models
from export_folders import served
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from searchless import searchless

from keras_encdec.decoding.sampler_registry import registered_samplers
from keras_encdec.export import export_model, verify_export
from keras_encdec.export.comparison import model_scores
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.stored_weights import _decode_weight_in_graph, decode_weight, encode_weight, rounded_model
from keras_encdec.model_directory import ModelDirectory

WORDS = [f"w{i}" for i in range(30)]
MODEL = {"cell": "gru", "attention": "global", "input_feeding": False, "layers": 1, "units": 32, "embedding_dim": 32}
# Many zeros, and numbers of very different sizes, none so small that TensorFlow rounds it to zero.
NUMBERS = st.one_of(
    st.sampled_from([0.0, 0.0, 0.0]), st.floats(2**-10, 2**10, width=32), st.floats(-1, -(2**-6), width=32)
)
ARRAYS = st.integers(1, 3).flatmap(
    lambda rank: arrays_of.arrays(np.float32, arrays_of.array_shapes(min_dims=rank, max_dims=rank), elements=NUMBERS)
)


@settings(max_examples=50, deadline=None)
@given(ARRAYS, st.sampled_from(["float32", "bfloat16", "int8"]))
def test_the_graph_restores_what_was_stored_bit_by_bit(array, form):
    parts = encode_weight(array, form)
    expected = decode_weight(parts, array.shape)
    tensors = {name: tf.constant(part) for name, part in parts.items()}
    np.testing.assert_array_equal(_decode_weight_in_graph(tensors, array.shape), expected)
    if form == "float32" or array.ndim == 1:
        np.testing.assert_array_equal(expected, array)
    elif form == "bfloat16":
        np.testing.assert_allclose(expected, array, rtol=2**-8)
    else:
        steps = [np.abs(array).max(axis=axis, keepdims=True) / 127 for axis in (0, -1)]
        assert any((np.abs(expected - array) <= 0.501 * step).all() for step in steps)


@pytest.fixture(scope="module")
def attention_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "model"
    return toy_models.save_model(folder, WORDS, WORDS, **MODEL)


@pytest.fixture(scope="module")
def pruned_model(attention_model, tmp_path_factory):
    """The same model with four fifths of its weights set to zero."""
    folder = tmp_path_factory.mktemp("pruned") / "model"
    directory = ModelDirectory.load(attention_model)
    random = np.random.default_rng(0)
    for weight in directory.model.weights:
        weight.assign(np.where(random.random(weight.shape) < 0.2, keras.ops.convert_to_numpy(weight), 0))
    toy_models.save_model(folder, WORDS, WORDS, **MODEL)
    directory.model.save(folder / "best.keras")
    return folder


@pytest.fixture(scope="module")
def in_int8(attention_model, tmp_path_factory):
    """The model, exported with weights of 8 bits."""
    folder = tmp_path_factory.mktemp("in_int8")
    with searchless():
        export_model(attention_model, folder, weights="int8")
    return folder


def stored_bytes(folder):
    return sum(path.stat().st_size for path in (folder / "1" / "variables").iterdir())


def as_a_server(folder, signature, output, **inputs):
    """An output of a signature as TensorFlow Serving's loader computes it, which restores weights in a session."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(folder / "1")).signature_def[signature]
        fed = {loaded.inputs[name].name: values for name, values in inputs.items()}
        return session.run(loaded.outputs[output].name, fed)


def test_a_version_with_rounded_weights_scores_as_the_rounded_model(attention_model, in_int8):
    directory = ModelDirectory.load(attention_model)
    pairs = [(["w1", "w2"], ["w3"]), (["w4"], ["w5", "w6", "other"]), ([], [])]
    sources, targets = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    expected = model_scores(dataclasses.replace(directory, model=rounded_model(directory.model, "int8")), pairs)
    scores = served(in_int8)["score"](source=tf.constant(sources), target=tf.constant(targets))["log_prob"].numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    np.testing.assert_allclose(as_a_server(in_int8, "score", "log_prob", source=sources, target=targets), scores)
    assert 1e-3 < np.abs(scores - model_scores(directory, pairs)).max() < 1
    assert stored_bytes(in_int8) < 0.4 * 4 * directory.model.count_params()
    assert json.loads((in_int8 / "1" / "assets.extra" / "keras_encdec.json").read_text())["weights"] == "int8"


def test_zeros_of_a_pruned_model_are_left_out_and_scores_and_targets_stay_equal(pruned_model, tmp_path, monkeypatch):
    greedy = {"greedy": registered_samplers()["greedy"]}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: greedy)
    export_model(pruned_model, tmp_path / "models")
    directory = ModelDirectory.load(pruned_model)
    assert stored_bytes(tmp_path / "models") < 0.5 * 4 * directory.model.count_params()
    monkeypatch.setattr("keras_encdec.export.stored_weights.MIN_SAVING", 1)  # no array saves that much
    (tmp_path / "assets").mkdir()
    whole = ServedModel(directory, tmp_path / "assets", ServingConfig()).signatures["generate_greedy"]
    source = tf.constant(["w1 w2 w3", "w4"])
    expected, outputs = whole(source=source), served(tmp_path / "models")["generate_greedy"](source=source)
    assert outputs["target"].numpy().tolist() == expected["target"].numpy().tolist()
    np.testing.assert_array_equal(outputs["log_prob"], expected["log_prob"])


def test_a_version_can_be_loaded_twice_and_released_once(in_int8):
    first, second = (tf.saved_model.load(str(in_int8 / "1")) for _ in range(2))
    inputs = {name: tf.constant(["w1 w2"]) for name in ("source", "target")}
    expected = first.signatures["score"](**inputs)["log_prob"].numpy()
    del first
    gc.collect()
    assert second.signatures["score"](**inputs)["log_prob"].numpy() == expected


@pytest.mark.usefixtures("scores_here")
def test_verification_says_what_rounding_changes_and_expects_the_rounded_weights(attention_model, in_int8):
    rounded, exported, _ = verify_export(attention_model, in_int8, made_pairs=20).comparisons
    assert rounded.scorer == "weights rounded to int8" and rounded.largest_difference > 1e-3
    assert exported.scorer == "exported" and exported.largest_difference < 1e-4
