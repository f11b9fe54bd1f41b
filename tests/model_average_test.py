"""The average of trained models: the mean of their weights, in a directory like any other."""

import json

import numpy as np
import pytest
import toy_models

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.model_average import average_models
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.pruning import prune_model
from keras_encdec.scoring import TextScorer
from keras_encdec.sparse_weights import is_sparse

WORDS = [f"w{i}" for i in range(20)]
MODEL = {"cell": "gru", "attention": "global", "bidirectional": "sum", "units": 48, "dropout": 0.2}


def trained_further(start, path, seed, size=0.1, mask=False):
    """Copies a model with small changes of its weights, as another training run from the same weights would make."""
    directory = ModelDirectory.load(start)
    random = np.random.default_rng(seed)
    weights = directory.model.get_weights()
    changed = [weight + random.normal(0, size, weight.shape) * ((weight != 0) if mask else 1) for weight in weights]
    copy = ModelDirectory(path, directory.source_vocabulary, directory.target_vocabulary)
    copy.save_config("recurrent", {})
    directory.model.set_weights(changed)
    directory.model.save(path / "best.keras")
    return path, changed


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return toy_models.save_model(tmp_path_factory.mktemp("start") / "model", WORDS, WORDS, **MODEL)


@pytest.mark.usefixtures("uncompiled")
def test_the_average_has_the_mean_of_the_weights_and_the_files_of_the_first_model(start, tmp_path):
    paths, weights = zip(*(trained_further(start, tmp_path / str(seed), seed) for seed in range(3)), strict=True)
    (tmp_path / "0" / "settings.toml").write_text("architecture = 'recurrent'\n")
    result = average_models(paths, tmp_path / "new" / "average")
    assert result.models == 3 and 0.9 < result.cosine < 1 and "The average of 3 models" in str(result)
    means = [np.mean(each, axis=0, dtype=np.float64) for each in zip(*weights, strict=True)]
    averaged = ModelDirectory.load(result.path)
    for found, expected in zip(averaged.model.get_weights(), means, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    assert json.loads((result.path / "config.json").read_text())["sha256"]["best.keras"] == [
        averaged.checksums()["best.keras"]
    ]
    assert {path.name for path in result.path.iterdir()} == {path.name for path in (tmp_path / "0").iterdir()}
    assert np.isfinite(TextScorer(result.path).score([(["w1", "w2"], ["w3"])])).all()


def test_models_that_are_pruned_by_one_mask_have_a_pruned_average(start, tmp_path):
    pruned = prune_model(start, tmp_path / "pruned", share=0.8).path
    paths = [trained_further(pruned, tmp_path / str(seed), seed, mask=True)[0] for seed in range(2)]
    averaged = average_models(paths, tmp_path / "average").path
    assert is_sparse(averaged / "best.keras")
    for found, expected in zip(
        *(ModelDirectory.load(path).model.get_weights() for path in (averaged, pruned)), strict=True
    ):
        np.testing.assert_array_equal(found != 0, expected != 0)


def test_what_cannot_be_averaged_is_refused_and_nothing_is_written(start, tmp_path):
    def saved(name, **values):
        return toy_models.save_model(tmp_path / name, WORDS, values.pop("target", WORDS), **{**MODEL, **values})

    output = tmp_path / "average"
    with pytest.raises(ConfigurationError, match="found model_dirs='start', expected a list of paths"):
        average_models("start", output)
    for other, expected in (
        (saved("seed", seed=1), "weights unlike those in .*: their cosine is -?0.0"),
        (saved("sizes", units=8), "found a model whose architecture or sizes differ from those of"),
        (saved("lstm", cell="lstm"), "found a model whose architecture or sizes differ from those of"),
        (saved("words", target=WORDS[::-1]), "found a different target vocabulary from that of"),
    ):
        with pytest.raises(InputError, match=expected):
            average_models([start, other], output)
    with pytest.raises(ConfigurationError, match="expected two models or more"):
        average_models([start], output)
    with pytest.raises(InputError, match="found a file or directory that exists already, expected a new path"):
        average_models([start, start], tmp_path)
    assert not output.exists()
