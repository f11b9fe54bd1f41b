"""Verification of exports: only the model that was exported passes."""

import contextlib
import json
import shutil
import sys
from unittest import mock

import numpy as np
import pytest
import toy_models
from commands import fail, succeed
from searchless import searchless

from keras_encdec.errors import InputError
from keras_encdec.export import export_model, scoring_process, verify_export
from keras_encdec.export.comparison import allowed_difference, check_scores
from keras_encdec.export.verification import process_scores
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text import Vocabulary

WORDS = [f"w{i}" for i in range(30)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The directory of a reverse model, the harder case, and the folder that it was exported to."""
    folder = tmp_path_factory.mktemp("verify")
    model = toy_models.save_model(folder / "model", WORDS, ["é", *WORDS], reverse=True)
    with searchless():
        export_model(model, folder / "models")
    return model, folder / "models"


@pytest.fixture
def verify(verify_command):
    return verify_command


def flags(folders, *others):
    return (f"--model_dir={folders[0]}", f"--export_dir={folders[1]}", *others)


def test_scores_are_compared_in_batches_one_by_one_and_with_every_backend(verify, folders):
    lines = succeed(verify(*flags(folders, "--pairs=120", "--backends=jax,torch"))).stdout.splitlines()
    whats = ["exported", "exported, one at a time", *(f"encdec-score on {b}" for b in ("jax", "torch"))]
    assert [line.split(": ")[0] for line in lines] == whats
    assert [line.split()[-6] for line in lines] == ["120", "13", "120", "120"]


@pytest.mark.usefixtures("scores_here")
def test_made_pairs_are_no_longer_than_the_version_accepts(verify, folders, tmp_path):
    with searchless():
        export_model(folders[0], tmp_path / "short", max_tokens=2)
    report = verify_export(folders[0], tmp_path / "short", made_pairs=40, backends=())
    assert 0 < report.comparisons[0].pairs < 40
    done = succeed(verify(*flags((folders[0], tmp_path / "short"), "--pairs=20")))  # ten of the package's table
    assert 0 < int(done.stdout.split()[1]) < 20


@pytest.mark.usefixtures("scores_here")
def test_given_pairs_are_read_as_a_client_sends_them(verify, folders, tmp_path):
    (tmp_path / "pairs.tsv").write_bytes("w1 &amp;\té\n\tw2 w3\n".encode("latin-1"))
    done = succeed(verify(*flags(folders, f"--input={tmp_path / 'pairs.tsv'}", "--encoding=latin-1")))
    assert "exported: 2 pairs" in done.stdout
    (tmp_path / "table").write_text("w1|X w2|Y ||| é|Z ||| 0.5 ||| |||\n" * 3)
    done = succeed(verify(*flags(folders, f"--input={tmp_path / 'table'}", "--format=phrase_table", "--pairs=2")))
    assert "exported: 2 pairs" in done.stdout


@pytest.mark.usefixtures("scores_here")
def test_another_model_fails_the_verification(copied, tmp_path):
    other = toy_models.save_model(tmp_path / "model", WORDS, ["é", *WORDS], reverse=True, seed=1)
    with pytest.raises(InputError, match="weights that differ from the exported ones, expected the model that .*/1 w"):
        verify_export(other, copied[1], made_pairs=20)
    config = json.loads((other / "config.json").read_text())
    config["training"] = {**(config.get("training") or {}), "tasks": {"fr": {}, "de": {}}}
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="check --model_dir and --task, or export this model again"):
        verify_export(other, copied[1], made_pairs=20)
    edit_description(copied[1], model_weights=None)  # as in versions exported by the first versions of the package
    with pytest.raises(InputError, match=f"{copied[1]}: found ln p .*expected the model's own"):
        verify_export(other, copied[1], made_pairs=20)
    edit_description(copied[1], model_weights=["a"])
    with pytest.raises(InputError, match="model_weights is not a checksum.*export the model again"):
        verify_export(other, copied[1], made_pairs=20)
    edit_description(copied[1], model_weights=None, max_tokens=float("inf"))
    with pytest.raises(InputError, match="its max_tokens is inf.*export the model again"):
        verify_export(other, copied[1], made_pairs=20)


def edit_description(export_dir, **values):
    path = export_dir / "1" / "assets.extra" / "keras_encdec.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(("characters", "is_allowed"), [(None, False), (Vocabulary(["a"]), True)])
def test_a_score_of_characters_may_differ_more(characters, is_allowed, tmp_path):
    target = Vocabulary(["w"])
    target.characters = characters
    tolerance = allowed_difference(ModelDirectory(tmp_path, Vocabulary(["v"]), target))
    texts, score = [("v", "w"), ("v", "w w")], np.array([-1.0, -20.0])
    for factor in (0.5, 1.5):
        scores = score + [0, factor * 1e-4]  # at ln p = -20, twice the tolerance is allowed
        with contextlib.nullcontext() if is_allowed else pytest.raises(InputError, match="ln p -19.999.*within 2e-05"):
            check_scores("exported", scores, score, texts, tmp_path, "export again", tolerance)
    with pytest.raises(InputError, match="pair 'v', 'w w', expected the model's own -20.0000000"):
        check_scores("exported", score + [0, 2.5e-4], score, texts, tmp_path, "export again", tolerance)


@pytest.mark.usefixtures("scores_here")
def test_the_report_lists_the_comparisons(folders):
    report = verify_export(*folders, pairs=[("w1 &amp;", "é"), ("", "w2 w3")])
    assert report.path == folders[1] / "1"
    assert str(report.comparisons[1]).startswith("exported, one at a time: 1 pair, largest difference ")
    assert [(comparison.scorer, comparison.pairs) for comparison in report.comparisons] == [
        ("exported", 2),
        ("exported, one at a time", 1),
    ]
    assert all(0 <= comparison.largest_difference < 1e-5 for comparison in report.comparisons)


@pytest.mark.usefixtures("no_search", "scores_here")
def test_a_model_trained_in_bfloat16_is_compared_in_float32(tmp_path):
    model = toy_models.save_model(tmp_path / "model", WORDS, WORDS, dtype="mixed_bfloat16")
    export_model(model, tmp_path / "models")
    report = verify_export(model, tmp_path / "models", made_pairs=9, backends=["tensorflow"])
    assert [comparison.pairs for comparison in report.comparisons] == [9, 1, 9]


def test_unusable_arguments_are_errors_that_name_the_remedy(verify, folders, tmp_path):
    fail(verify(*flags(folders, "--backends=tensorflow,theano")), 2, "theano", "tensorflow, jax, torch")
    fail(verify(*flags((folders[0], tmp_path))), 1, tmp_path, "encdec-export")
    fail(verify(*flags(folders, "--version=3")), 1, "found version 1, expected version 3")


@pytest.mark.usefixtures("scores_here")
def test_pairs_and_versions_that_cannot_be_scored_are_errors(verify, folders, tmp_path):
    (tmp_path / "pairs.tsv").write_text("w1\tw2\nw1\t" + "w3 " * 300 + "\nw1\tw2\nmalformed\n")
    done = verify(*flags(folders, f"--input={tmp_path / 'pairs.tsv'}"))
    assert done.stderr.splitlines()[0] == "Left out: 1 malformed line."
    sentence = f"found a pair that is too long, 'w1' and '{('w3 ' * 14)[:40]}', expected at most 256 tokens"
    assert done.returncode == 1 and sentence in done.stderr and "Traceback" not in done.stderr
    with pytest.raises(InputError, match=r"bytes that cannot be decoded, 'w1' and 'caf\\udce9', expected UTF-8"):
        verify_export(*folders, pairs=[("w1", "caf\udce9")])
    shutil.copytree(folders[1], tmp_path / "models")
    description = tmp_path / "models" / "1" / "assets.extra" / "keras_encdec.json"
    for content in ("{", "{}"):
        description.write_text(content)
        with pytest.raises(InputError, match=f"{description}: .*export the model again"):
            verify_export(folders[0], tmp_path / "models")
    shutil.copy(folders[1] / "1" / "assets.extra" / "keras_encdec.json", description)
    graph = tmp_path / "models" / "1" / "saved_model.pb"
    graph.unlink()
    fail(verify(*flags((folders[0], tmp_path / "models"), "--pairs=5")), 1, graph, "no such file")


@pytest.fixture
def copied(folders, tmp_path):
    """The folder of the model and a copy of the exported one."""
    shutil.copytree(folders[1], tmp_path / "models")
    return folders[0], tmp_path / "models"


@pytest.mark.parametrize(
    "files", ["assets/*source*", "assets/*target*", "variables/variables.data*", "variables/variables.index"]
)
@pytest.mark.parametrize("change", [lambda data: data[:-5], lambda data: data[:-1] + b"?", lambda data: b""])
def test_the_error_names_a_file_that_has_changed(copied, files, change):
    [file] = (copied[1] / "1").glob(files)
    file.write_bytes(change(file.read_bytes()))
    sentence = f"{file}: found a file that has changed since the model was exported, expected the file"
    with pytest.raises(InputError, match=sentence):
        verify_export(*copied, pairs=[("w1", "w2")])


@pytest.mark.usefixtures("scores_here")
def test_a_version_without_checksums_passes(copied):
    description = copied[1] / "1" / "assets.extra" / "keras_encdec.json"
    content = json.loads(description.read_text())
    assert any(name.startswith("assets/") for name in content.pop("sha256"))
    description.write_text(json.dumps(content))
    assert verify_export(*copied, pairs=[("w1", "w2")]).comparisons
    for checksums in ({"../../secret": ""}, {"saved_model.pb": 1}, [], ["saved_model.pb"]):
        description.write_text(json.dumps({**content, "sha256": checksums}))
        with pytest.raises(InputError, match=f"{description}: .*export the model again"):
            verify_export(*copied, pairs=[("w1", "w2")])


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("import keras_encdec_missing", "No module named 'keras_encdec_missing'.*; install the missing package for "),
        (
            "from keras_encdec.errors import InputError; raise InputError('found a', 'expected b', 'do c')",
            "m: scoring failed: found a, expected b; do c.$",
        ),
        ("import os; os.kill(os.getpid(), 9)", "signal 9 ended its process.*; free memory"),
        ("raise ValueError('too long')", "too long.*; give pairs within the limits"),
    ],
)
def test_the_error_of_a_failed_process_has_a_remedy(script, sentence):
    with pytest.raises(InputError, match=sentence) as failure:
        process_scores([sys.executable, "-c", script], {}, "m")
    assert ("limits" in str(failure.value)) == ("limits" in sentence)


def test_a_process_without_tensorflow_text_names_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with mock.patch.dict(sys.modules), pytest.raises(ImportError, match="No module named 'tensorflow_text'"):
        scoring_process.saved_model("m", [], text=True)


def test_the_error_without_a_version_says_so(folders, tmp_path):
    with pytest.raises(InputError, match="found no version, expected at least one; export one first"):
        verify_export(folders[0], tmp_path)
