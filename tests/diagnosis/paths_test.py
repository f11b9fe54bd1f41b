"""Models, exports and sharded jobs that are whole, and damaged in several ways."""

import gzip
import hashlib
import json
import shutil

import pytest

from keras_encdec.diagnosis.paths import check_path
from keras_encdec.export.versions import version_checksums
from keras_encdec.model_config import replace_weights
from keras_encdec.runtime.shard_folder import record_checksum


@pytest.fixture
def model(model_dirs, tmp_path):
    """A copy of a model directory to damage, its checksums recorded as by a training run."""
    folder = shutil.copytree(model_dirs / "forward", tmp_path / "model")
    replace_weights(folder, shutil.copy(folder / "best.keras", folder / "new.keras"))
    return folder


@pytest.fixture
def export(tmp_path):
    """Two versions of an export by their files and descriptions; nothing loads them."""
    folder = tmp_path / "served"
    for number in ("1", "2"):
        version = folder / number
        for name in ("saved_model.pb", "variables/variables.index", "assets/source.vocab"):
            (version / name).parent.mkdir(parents=True, exist_ok=True)
            (version / name).write_text(name * 9)
        (version / "assets.extra").mkdir()
        description = {"reads": "tokens", "tokenization": None, "sha256": version_checksums(version)}
        (version / "assets.extra" / "keras_encdec.json").write_text(json.dumps(description))
    return folder


@pytest.fixture
def shards(tmp_path):
    """The folder of a sharded job, one of whose two shards is compressed."""
    folder = tmp_path / "scored.gz.shards"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"format": 1}')
    (folder / "000000000.0.gz").write_bytes(gzip.compress(b"one\n"))
    (folder / "000000001.0").write_bytes(b"two\n")
    sums = [hashlib.sha256(data).hexdigest() for data in (b"one\n", b"two\n")]
    records = [{"shard": number, "outputs": [{"sha256": checksum}]} for number, checksum in enumerate(sums)]
    for number, record in enumerate(records):
        record["checksum"] = record_checksum(record)
        (folder / f"{number:09}.done.json").write_text(json.dumps(record))
    return folder


def flip_byte(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def problem(path):
    """The only problem that is found in a path."""
    checked = check_path(path)
    assert dict(checked.rows())[str(path)].startswith(f"{checked.kind}, {checked.state.upper()}")
    assert checked.state == ("not checked" if checked.kind == "unknown" else "damaged")
    [sentence] = checked.problems
    assert sentence.endswith(".") and "; " in sentence
    return sentence


def test_undamaged_directories_are_reported_as_undamaged(model, export, shards):
    def said(path):
        checked = check_path(path)
        assert checked.problems == ()
        return dict(checked.rows())[str(path)]

    assert said(model).startswith("model directory, complete and unchanged: 11 and 11 words, ")
    assert said(model / "best.keras") == said(model / "config.json") == said(model)
    assert said(export) == "export, complete and unchanged: version 1, 2"
    assert said(export / "2") == "version of an export, complete and unchanged: version 2"
    assert said(shards) == said(shards / "manifest.json")
    assert said(shards) == "unfinished sharded job, complete and unchanged: 2 shards are done"


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda model: (model / "best.keras").unlink(), "found no best.keras, expected the model's weights; train"),
        (
            lambda model: flip_byte(model / "best.keras"),
            "best.keras: found a file that has changed since the model was trained",
        ),
        (
            lambda model: (model / "source.vocab").write_text("le\n"),
            "source.vocab: found a file that has changed",
        ),
        (lambda model: (model / "target.vocab").unlink(), "target.vocab: found no such file"),
        (lambda model: (model / "config.json").write_text("{"), "config.json: found a file that cannot be read"),
        (lambda model: (model / "config.json").unlink(), "found no config.json in it, expected a model directory"),
    ],
    ids=["no weights", "flipped byte", "truncated vocabulary", "no vocabulary", "broken config", "no config"],
)
def test_a_damaged_model(model, damage, said):
    damage(model)
    assert said in problem(model)


def test_all_tasks_of_a_model_are_checked(model):
    shutil.copytree(model, model / "tasks" / "other")
    config = json.loads((model / "config.json").read_text())
    config["training"] = {**config.get("training", {}), "tasks": {"main": {}, "other": {}}}
    (model / "config.json").write_text(json.dumps(config))
    assert dict(check_path(model).rows())[str(model)].endswith(" weights, 1 more task")
    flip_byte(model / "tasks" / "other" / "best.keras")
    assert "tasks/other/best.keras: found a file that has changed" in problem(model)
    shutil.rmtree(model / "tasks")
    assert "tasks/other: found no such directory" in problem(model)


def test_a_model_may_have_two_problems(model):
    (model / "source.vocab").write_text("le\n")
    (model / "best.keras").unlink()
    first, second = check_path(model).problems
    assert "source.vocab: found a file that has changed" in first and "found no best.keras" in second


def test_without_a_backend_that_works_a_model_is_not_checked(model, export):
    checked = check_path(model, backend_works=False)
    assert checked.state == "not checked" and "models cannot be loaded without a working backend" in checked.problems[0]
    assert not check_path(export, backend_works=False).problems


@pytest.mark.parametrize(
    "raised, state, said",
    [
        (ImportError("no libx"), "not checked", "found a library that cannot be imported (no libx); install it again."),
        (
            MemoryError(),
            "not checked",
            "found too little memory to check it; free some, or raise its limit (ulimit -v).",
        ),
        (KeyError("x"), "damaged", "could not be checked (KeyError: 'x'); copy it again."),
    ],
)
def test_the_diagnosis_continues_after_any_exception_of_a_check(model, monkeypatch, raised, state, said):
    def check(folder):
        raise raised

    monkeypatch.setattr("keras_encdec.diagnosis.paths._check_model", check)
    checked = check_path(model)
    assert (checked.state, checked.problems) == (state, (f"{model}: {said}",))


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda version: flip_byte(version / "saved_model.pb"), "saved_model.pb: found a file that has changed since"),
        (lambda version: (version / "saved_model.pb").unlink(), "saved_model.pb: found no such file or directory"),
        (lambda version: (version / "assets" / "source.vocab").write_text("le\n"), "source.vocab: found a file that"),
        (lambda version: shutil.rmtree(version / "assets.extra"), "found no valid description of the version"),
    ],
    ids=["flipped byte", "no graph", "truncated vocabulary", "no description"],
)
def test_a_damaged_version(export, damage, said):
    damage(export / "2")
    sentence = problem(export)
    assert said in sentence and str(export / "2") in sentence


def test_an_export_without_versions(tmp_path):
    (tmp_path / "models.config").touch()
    assert "found no version, expected at least one; export one first" in problem(tmp_path)


def test_a_damaged_shard(shards):
    (shards / "000000001.0").write_bytes(b"tw")
    assert f"{shards / '000000001.0'}: found a damaged part" in problem(shards)
    (shards / "000000001.0").write_bytes(b"two\n")
    flip_byte(shards / "000000000.0.gz")
    assert "000000000.0: found a damaged part, expected what was written; run the job again" in problem(shards)
    for record in ('{"checksum": "ab", "shard": 0, "outputs": []}', "[1]", "null"):
        (shards / "000000000.done.json").write_text(record)
        assert "000000000.done.json: found a damaged record, expected what was written; run the job" in problem(shards)
    (shards / "manifest.json").write_text('{"format": ')
    assert f"{shards}: found a manifest that cannot be read (Expecting value" in problem(shards)
    (shards / "manifest.json").unlink()
    assert f"remove {shards} and run the job again" in problem(shards)


def test_a_path_of_an_unknown_kind(tmp_path):
    assert "found neither a model, nor an export, nor the shards of a job" in problem(tmp_path)
    (tmp_path / "file").touch()
    assert "found neither a model" in problem(tmp_path / "file")
    assert "found no such file or directory" in problem(tmp_path / "none")
