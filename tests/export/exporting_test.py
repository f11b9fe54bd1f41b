"""Exports: their options, which models can be exported, and the errors of those that cannot."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import toy_models
from commands import fail, succeed
from eagerly import eagerly, uncompiled
from export_folders import names, served

from keras_encdec.errors import InputError
from keras_encdec.export import export_model, verify_export
from keras_encdec.models import RNNEncoderDecoder, published_optimizer

WORDS = [f"w{i}" for i in range(30)]


def test_the_served_search_has_the_given_beam_size(export_command, model_dir, tmp_path):
    flags = f"--model_dir={model_dir}", f"--export_dir={tmp_path}", "--beam_size=3", "--max_tokens=4"
    done = succeed(export_command(*flags))
    assert done.stderr == f"{tmp_path / '1'}: version 1, stable is 1\n"
    signatures = served(tmp_path)
    assert signatures["generate"](source=tf.constant(["w1"]))["target"].shape == (1, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 4"):
        signatures["generate"](source=tf.constant(["w1 " * 5]))
    description = json.loads((tmp_path / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["beam_size"] == 3 and description["max_tokens"] == 4


ON_ANOTHER_BACKEND = """
import pathlib, sys
import numpy as np
from keras_encdec.backend.startup import lean_imports
with lean_imports():
    import keras
import keras_encdec.models, toy_models
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
folder, words = pathlib.Path(sys.argv[1]), [f"w{i}" for i in range(30)]
model = keras.saving.load_model(folder / "trained.keras")
pairs = dict(np.load(folder / "pairs.npz"))
np.save(folder / "scores.npy", keras.ops.convert_to_numpy(model.score(pairs["source"], pairs["target"])))
model.fit(pairs, epochs=1, verbose=0)
assert "tensorflow" not in sys.modules, "TensorFlow was imported"
keras.config.set_dtype_policy("mixed_bfloat16")
toy_models.save_model(folder / "model", words, words)
"""


def test_models_go_to_another_backend_and_back(tmp_path, scores_here, no_search):
    """A model that TensorFlow trained scores the same on another backend and can be trained further there.

    A model made there in bfloat16 is exported by TensorFlow in float32, without setting KERAS_BACKEND.
    """
    trained = RNNEncoderDecoder(30, 30, **toy_models.SIZES, reset_after=True)
    trained.compile(published_optimizer())
    pairs = {"source": np.array([[3, 4, 2], [5, 2, 0]]), "target": np.array([[6, 2], [7, 2]])}
    with eagerly():
        trained.fit(pairs, epochs=2, verbose=0)
    trained.save(tmp_path / "trained.keras")
    np.savez(tmp_path / "pairs.npz", **pairs)
    environment = {**os.environ, "KERAS_BACKEND": "torch", "PYTHONPATH": str(pathlib.Path(toy_models.__file__).parent)}
    subprocess.run([sys.executable, "-c", ON_ANOTHER_BACKEND, str(tmp_path)], env=environment, check=True)
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), trained.score(**pairs), atol=1e-4)
    flags = f"--model_dir={tmp_path / 'model'}", f"--export_dir={tmp_path / 'models'}"
    script = pathlib.Path(sys.executable).with_name("encdec-export")
    done = subprocess.run([script, *flags], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.startswith(str(tmp_path / "models" / "1")), done.stderr
    with uncompiled():
        report = verify_export(tmp_path / "model", tmp_path / "models", made_pairs=50)
    assert [comparison.pairs for comparison in report.comparisons] == [50, 6]


def test_on_another_backend_the_error_names_the_expected_one(model_dir, monkeypatch, tmp_path):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for wrong in (lambda: export_model(model_dir, tmp_path), lambda: verify_export(model_dir, tmp_path)):
        with pytest.raises(InputError, match="found Keras on jax, expected KERAS_BACKEND=tensorflow"):
            wrong()


def test_an_export_that_fails_leaves_nothing(export_command, model_dir, tmp_path):
    folder = tmp_path / "models"
    flags = f"--model_dir={model_dir}", f"--export_dir={folder}"
    fail(export_command(f"--model_dir={tmp_path / 'none'}", flags[1]), 1, "none", "no such directory")
    assert not folder.exists()
    (tmp_path / "file").write_text("")
    fail(export_command(flags[0], f"--export_dir={tmp_path / 'file'}"), 1, "found a file", "make a directory")
    fail(export_command(flags[1]), 2, "--model_dir")
    fail(export_command(*flags, "--stable_version=1"), 2, "--model_dir and --stable_version")
    fail(export_command(flags[0], "--export_dir="), 2, "empty --export_dir")
    fail(export_command(*flags, f"--version={2**63}"), 2, "--version")
    for flag in ("version", "max_tokens", "beam_size", "top_k", "top_p"):
        fail(export_command(*flags, f"--{flag}=0"), 2, flag)
    assert not folder.exists()
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
    try:
        done = export_command(*flags)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    fail(done, 1, f"{folder}: found that the file exceeds the size limit when trying to write; raise the limit")
    assert not folder.exists()


@pytest.mark.parametrize("what", ["other weights", "no graph"])
def test_a_version_that_does_not_score_as_the_model_is_not_published(
    scores_only, model_dir, monkeypatch, tmp_path, what
):
    def spoilt(directory, path, *arguments):
        shutil.copytree(scores_only / "1", path, dirs_exist_ok=True)
        if what == "no graph":
            (path / "saved_model.pb").write_bytes(b"no graph")
        return directory.model

    monkeypatch.setattr("keras_encdec.export.saved_model.write_saved_model", spoilt)
    folder = shutil.copytree(scores_only, tmp_path / "models")
    before = (folder / "models.config").read_bytes()
    model = toy_models.save_model(tmp_path / "other", WORDS, WORDS, seed=5) if what == "other weights" else model_dir
    expected = "found ln p .* expected the model's own" if what == "other weights" else "that does not score"
    with pytest.raises(InputError, match=f"{expected}.*; nothing was published: export again"):
        export_model(model, folder)
    assert names(folder) == ["1", "batching_parameters.txt", "models.config"]
    assert (folder / "models.config").read_bytes() == before


def test_a_language_model_is_not_served(tmp_path):
    model = toy_models.save_model(tmp_path / "model", [], WORDS, language_model=True)
    with pytest.raises(InputError, match="found a language model, expected a model with a source"):
        export_model(model, tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_a_model_of_raw_text_uses_tensorflow_text_and_describes_its_tokenization(
    export_command, verify_command, quick_export, model_dir, monkeypatch, tmp_path
):
    pytest.importorskip("tensorflow_text")
    done = succeed(export_command(f"--model_dir={model_dir}", f"--export_dir={tmp_path / 'quick'}", "--raw_text"))
    assert "trained on tokenized text" in done.stderr and "lowercases it" in done.stderr
    monkeypatch.undo()
    trained = toy_models.save_model(tmp_path / "raw", WORDS, WORDS, tokenization={"lowercase": False})
    flags = f"--model_dir={trained}", f"--export_dir={tmp_path / 'models'}"
    assert "trained on tokenized text" not in succeed(export_command(*flags, "--raw_text")).stderr
    description = json.loads((tmp_path / "models" / "1" / "assets.extra" / "keras_encdec.json").read_text())
    assert description["reads"] == "raw text" and description["tokenization"] == {"lowercase": False}
    succeed(verify_command(*flags, "--pairs=20"))


def test_without_the_extra_the_error_names_it(model_dir, tmp_path):
    (tmp_path / "tensorflow_serving.py").write_text("raise ImportError(\"No module named 'tensorflow_serving'\")")
    flags = f"--model_dir={model_dir}", f"--export_dir={tmp_path}/m"
    command = [sys.executable, "-m", "keras_encdec.cli.export", *flags]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and 'pip install "keras-encdec[serving]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "m").exists()
