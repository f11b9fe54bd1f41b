"""Pruned model directories: every architecture, the files that are kept, and errors."""

import contextlib
import json
import shutil

import keras
import numpy as np
import pytest
import toy_models
from keras import ops

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_config import replace_weights
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import build_model
from keras_encdec.pruning import PruningOptions, prune_model
from keras_encdec.pruning.pruning_masks import pruned_share, weight_classes
from keras_encdec.scoring import TextScorer
from keras_encdec.sparse_weights import is_half, store_half

WORDS = [f"w{i}" for i in range(20)]
ARCHITECTURES = {
    "encdec": {},
    "recurrent": {"cell": "lstm", "layers": 2, "bidirectional": "concat"},
    "attention": {"cell": "gru", "attention": "local_p", "input_feeding": True, "layers": 2},
    "context": {"cell": "rnn", "condition": "context", "layers": 2},
    "language_model": {"language_model": True, "layers": 2},
    "cslm": {"ngram_order": 3},
}
CLASSES = {
    "encdec": "source embedding, encoder layer 1, target embedding, decoder layer 1, maxout, softmax",
    "attention": "source embedding, encoder layer 1, encoder layer 2, target embedding, decoder layer 1, "
    "decoder layer 2, softmax, attention",
    "language_model": "target embedding, decoder layer 1, decoder layer 2, softmax",
    "cslm": "target embedding, decoder layer 1, decoder layer 2, softmax",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy_models.save_model(tmp_path_factory.mktemp("dense") / "model", WORDS, WORDS, units=48)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_is_pruned_by_class(tmp_path, name):
    dense = toy_models.save_model(tmp_path / "dense", WORDS, WORDS, **ARCHITECTURES[name])
    result = prune_model(dense, tmp_path / "pruned", share=0.5, scheme="class_uniform")
    assert result.share == pytest.approx(0.5, abs=0.01) and pruned_share(ModelDirectory.load(dense).model) == 0
    assert all(pruned.share == pytest.approx(0.5, abs=0.03) for pruned in result.classes)
    if name in CLASSES:
        assert ", ".join(pruned.name for pruned in result.classes) == CLASSES[name]
    before, after = (ModelDirectory.load(path).model for path in (dense, tmp_path / "pruned"))
    classed = {id(weight) for weights in weight_classes(after).values() for weight in weights}
    for old, new in zip(before.weights, after.weights, strict=True):
        old, values = ops.convert_to_numpy(old), ops.convert_to_numpy(new)
        assert (id(new) in classed) == (values.ndim > 1)
        np.testing.assert_array_equal(values, np.where(values == 0, 0, old) if values.ndim > 1 else old)


def test_the_smallest_weights_are_pruned_and_the_directory_is_whole(model, tmp_path):
    (model / "settings.toml").write_text("architecture = 'encdec'\n")
    result = prune_model(model, tmp_path / "new" / "pruned", PruningOptions(share=0.8))
    assert result.size < 0.7 * result.size_before  # a tiny model is mostly HDF5's own structure
    before, after = (ModelDirectory.load(path).model.get_weights() for path in (model, result.path))
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a.ndim > 1]
    kept = np.concatenate([np.abs(a[1:][b[1:] != 0]) for a, b in pairs])  # the first rows may be those of padding
    pruned = np.concatenate([np.abs(a[b == 0]) for a, b in pairs])
    assert kept.min() > pruned.max()
    config = json.loads((result.path / "config.json").read_text())
    assert config["sha256"]["best.keras"] == [ModelDirectory.load(result.path).checksums()["best.keras"]]
    assert (result.path / "settings.toml").exists() and "80.0% of the weights are zero" in str(result)


def test_scores_are_those_of_the_dense_weights(model, tmp_path, uncompiled):
    pruned = prune_model(model, tmp_path / "pruned", share=0.6).path
    directory = ModelDirectory.load(pruned)
    directory.model.save(tmp_path / "dense.keras")
    dense = keras.saving.load_model(tmp_path / "dense.keras")
    [score] = TextScorer(pruned).score([(["w1", "w2"], ["w3", "w4"])])
    assert float(dense.score([[4, 5, 2]], [[6, 7, 2]])[0]) == pytest.approx(float(score), abs=1e-5)


def test_a_model_stored_in_half_precision_stays_so(model, tmp_path):
    halved = shutil.copytree(model, tmp_path / "halved")
    store_half(shutil.copyfile(model / "best.keras", halved / "made"))
    replace_weights(halved, halved / "made")
    result = prune_model(halved, tmp_path / "pruned", share=0.6)
    assert is_half(result.path / "best.keras") and result.size < result.size_before
    pairs = (ModelDirectory.load(path).model.get_weights() for path in (halved, result.path))
    for before, after in zip(*pairs, strict=True):
        np.testing.assert_array_equal(after[after != 0], before[after != 0])


@pytest.mark.parametrize("share", [0, 1])
def test_a_share_of_zero_and_of_one(model, tmp_path, share):
    with pytest.warns(EncdecWarning, match="=1, which keeps only biases") if share else contextlib.nullcontext():
        result = prune_model(model, tmp_path / "pruned", share=share)
    assert result.share == share
    after = ModelDirectory.load(result.path).model
    assert np.isfinite(float(after.score([[4, 5, 2]], [[6, 2]])[0]))
    if share == 0:
        for one, other in zip(after.get_weights(), ModelDirectory.load(model).model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_frozen_layers_are_pruned_too(tmp_path):
    directory = ModelDirectory.load(toy_models.save_model(tmp_path / "frozen", WORDS, WORDS))
    directory.model.encoder.trainable = False
    directory.model.save(tmp_path / "frozen" / "best.keras")
    prune_model(tmp_path / "frozen", tmp_path / "pruned", share=0.5)
    assert pruned_share(ModelDirectory.load(tmp_path / "pruned").model) == pytest.approx(0.5, abs=0.01)
    assert {"encoder layer 1", "softmax"} < weight_classes(directory.model).keys()


def test_pruning_a_pruned_model_prunes_more_or_says_that_it_cannot(model, tmp_path):
    once = prune_model(model, tmp_path / "once", share=0.5).path
    for share in (0.3, 0.5):
        with pytest.raises(InputError, match="found 50.0 % of the weights already zero, expected less than --share="):
            prune_model(once, tmp_path / "less", share=share)
    assert not (tmp_path / "less").exists()
    twice, direct = (prune_model(path, tmp_path / name, share=0.7) for path, name in ((once, "twice"), (model, "one")))
    weights = [ModelDirectory.load(made.path).model.get_weights() for made in (twice, direct)]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_wrong_directories_and_options(model, tmp_path):
    with pytest.raises(
        InputError, match="found a file or directory that exists already, expected a new path; give another --output"
    ):
        prune_model(model, model)
    with pytest.raises(InputError, match="found no such directory"):
        prune_model(tmp_path / "none", tmp_path / "out")
    with pytest.raises(ConfigurationError, match="found share=1.5, expected a number, 0 to 1"):
        prune_model(model, tmp_path / "out", share=1.5)
    broken = ModelDirectory.load(model)
    weights = broken.model.get_weights()
    weights[0][1, 0] = np.nan
    broken.model.set_weights(weights)
    folder = toy_models.save_model(tmp_path / "broken", WORDS, WORDS, units=16)
    broken.model.save(folder / "best.keras")
    with pytest.raises(InputError, match="found weights that are infinite or not a number"):
        prune_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_layer_that_names_no_classes_is_sorted_by_its_layers():
    model = build_model("encdec", 20, 20, **toy_models.SIZES)
    model.encoder.weight_classes = model.decoder.weight_classes = dict
    assert list(weight_classes(model)) == [
        *("source embedding", "encoder layer 1", "encoder layer 2", "target embedding"),
        *("decoder layer 1", "decoder layer 2", "decoder layer 3", "softmax"),
    ]
