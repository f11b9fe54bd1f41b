"""Resuming a training run: what it keeps, what happens if a checkpoint is damaged, and what is refused."""

import concurrent.futures
import itertools
import json
import os
import pathlib
import re
import shutil
import tomllib
import zipfile

import keras
import numpy as np
import pytest
from tiny_trainings import number_of_updates, rounds, tiny_config, train_tiny

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.runtime.remote_folders import StagedFolder
from keras_encdec.trainers import TrainingData, fitting, resumption
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.model_card import ModelCard
from keras_encdec.trainers.resumption import load_checkpoint
from keras_encdec.trainers.settings_checks import check_resumed
from keras_encdec.trainers.training_files import has_checkpoint


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others have one way to compile")
def test_training_in_low_precision_without_xla_is_resumed(tsv, tmp_path):
    """bfloat16 on a CPU: only the optimizer is compiled by XLA."""
    settings = {"dtype_policy": "mixed_bfloat16", "jit_compile": "auto"}
    train_tiny(tsv, tmp_path / "model", updates=10, **settings)
    train_tiny(tsv, tmp_path / "model", resume=True, updates=20, **settings)
    history = rounds(tmp_path / "model")
    assert [entry["updates"] for entry in history] == [10, 20] and history[1]["perplexity"] < history[0]["perplexity"]


@pytest.mark.usefixtures("eager")
def test_low_precision_a_schedule_another_optimizer_and_smoothed_labels_are_resumed(tsv, tmp_path):
    settings = {"schedule": "linear", "optimizer": "sgd", "dtype_policy": "mixed_float16", "round_updates": 2}
    settings |= {"label_smoothing": 0.1, "warmup_updates": 5}
    train_tiny(tsv, tmp_path, updates=4, **settings)
    assert load_model(tmp_path / "last.keras", compiled=True).label_smoothing == 0.1
    with pytest.raises(
        ValueError, match="found label_smoothing=0.0, expected label_smoothing=0.1 as in the run to resume"
    ):
        train_tiny(tsv, tmp_path, resume=True, updates=6, **{**settings, "label_smoothing": 0.0})
    train_tiny(tsv, tmp_path, resume=True, updates=6, **settings)
    assert number_of_updates(tmp_path) == [2, 4, 6]
    # The learning rate of each round's last update: it depends on the shares of the training and of the warm-up done.
    rates = [entry["learning_rate"] for entry in rounds(tmp_path)]
    expected = [0.02 * (1 - 1 / 4) * 2 / 5, 0.02 * (1 - 3 / 4) * 4 / 5, 0.02 * (1 - 5 / 6)]
    assert rates == pytest.approx(expected, rel=0.011)
    assert load_model(tmp_path / "best.keras").dtype_policy.name == "mixed_float16"


@pytest.mark.usefixtures("eager")
def test_another_learning_rate_is_used_and_reported(tsv, tmp_path):
    settings = {"optimizer": "adam", "learning_rate": 0.001}
    train_tiny(tsv, tmp_path, updates=1, **settings)
    _, lines = train_tiny(tsv, tmp_path, resume=True, updates=2, **settings)
    assert not any("Continuing" in line for line in lines)
    _, [line] = train_tiny(tsv, tmp_path, resume=True, updates=2, **{**settings, "learning_rate": 0.5})
    assert line.startswith("Nothing to train")
    _, lines = train_tiny(tsv, tmp_path, resume=True, updates=3, **{**settings, "learning_rate": 0.5})
    assert lines[0] == "Continuing with another learning rate: learning_rate 0.5 instead of 0.001."
    _, lines = train_tiny(tsv, tmp_path, resume=True, updates=4, **{**settings, "learning_rate": 0.5})
    assert not any("Continuing" in line for line in lines)


def test_an_existing_model_is_not_overwritten(training_files, trained):
    path, data = trained[0].model_dir, TrainingData(phrase_table=training_files / "table.gz")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(ValueError, match=f"found a model in {path}; give another model_dir, or resume"):
        train_tiny(data, path, updates=1)
    with pytest.raises(ValueError, match="found units=9, expected units=8 as in the run to resume"):
        train_tiny(data, path, resume=True, updates=50, model={"units": 9})
    expected = "found batch_size=32, optimizer=sgd, expected batch_size=16, optimizer=adam as in the run to resume"
    with pytest.raises(ValueError, match=expected):
        train_tiny(data, path, resume=True, updates=50, batch_size=32, optimizer="sgd")
    with pytest.raises(ValueError, match="found architecture=recurrent, expected architecture=encdec as in"):
        train_tiny(data, path, resume=True, updates=50, architecture="recurrent")
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_must_have_the_same_validation_pairs(tsv, tmp_path):
    lines = pathlib.Path(tsv.tsv).read_text().splitlines(keepends=True)
    for name, some in (("valid", lines[:20]), ("moved", lines[:20]), ("other", lines[20:40])):
        (tmp_path / name).write_text("".join(some))
    model, (valid, moved, other) = tmp_path / "model", [str(tmp_path / name) for name in ("valid", "moved", "other")]
    train_tiny(tsv.replace(validation=(valid,)), model, updates=1)
    before = (model / "best.keras").read_bytes()
    for files, found in (((other,), other), ((), "none")):
        expected = f"found validation={found}, expected the pairs that the run to resume was validated on; give"
        with pytest.raises(ValueError, match=expected):
            train_tiny(tsv.replace(validation=files), model, resume=True, updates=2)
    assert (model / "best.keras").read_bytes() == before
    train_tiny(tsv.replace(validation=(moved,)), model, resume=True, updates=2)
    settings = tomllib.loads((model / "settings.toml").read_text())
    assert settings["training"]["updates"] == 2 and settings["data"]["validation"] == [valid]
    config = json.loads((model / "config.json").read_text())
    del config["training"]["validation_checksums"]  # as earlier versions wrote it
    (model / "config.json").write_text(json.dumps(config))
    train_tiny(tsv.replace(validation=(other,)), model, resume=True, updates=3)
    train_tiny(tsv, tmp_path / "held_out", updates=1)
    with pytest.raises(ValueError, match=f"found validation={valid}, expected the pairs"):
        train_tiny(tsv.replace(validation=(valid,)), tmp_path / "held_out", resume=True, updates=2)


@pytest.mark.usefixtures("eager")
def test_a_resumed_run_must_read_text_in_the_same_way(tsv, tmp_path):
    """It reads the validation files again, whose perplexities would otherwise not be comparable."""
    for side, word in (("source", "s1"), ("target", "t1")):
        (tmp_path / side).write_text(f"{word}\n")
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    data, model = tsv.replace(source_vocabulary=source), tmp_path / "model"
    train_tiny(data, model, updates=1)
    for changes, message in (
        ({"encoding": "latin-1"}, "found encoding=latin-1, expected no encoding as in the run to resume"),
        ({"tokenize": True, "lowercase": True}, "found tokenize=True, lowercase=True, expected tokenize=False, lower"),
        ({"target_vocabulary": target}, f"found target_vocabulary={target}, expected no target_vocabulary as in"),
        ({"source_vocabulary": None}, f"found no source_vocabulary, expected source_vocabulary={source} as in"),
    ):
        changed = data.replace(**changes)
        with pytest.raises(ValueError, match=message):
            train_tiny(changed, model, resume=True, updates=2)
        with pytest.raises(ValueError, match=message):
            check_resumed(tiny_config(updates=2), changed, None, model)
    same = data.replace(source_vocabulary=os.path.relpath(source), encoding="UTF8")
    result, _ = train_tiny(same, model, resume=True, updates=2)
    assert result.updates == 2


@pytest.mark.usefixtures("eager")
def test_resume_starts_anew_without_a_complete_round(trained, tsv, tmp_path):
    """A scheduler repeats the same command whenever it was killed."""
    path = shutil.copytree(
        trained[0].model_dir, tmp_path / "m", ignore=shutil.ignore_patterns("last.keras", "previous.keras", "logs")
    )
    copied = shutil.copytree(path, tmp_path / "copied", ignore=shutil.ignore_patterns("history.json", "prepared"))
    for folder, resume in itertools.product((path, copied), (True, False)):
        message = "found best.keras and no last.keras, expected last.keras to resume the training, or no model; restore"
        message = message if resume else "found a trained model, expected none; give another --model_dir"
        with pytest.raises(InputError, match=f"{folder}: {message}"):
            train_tiny(tsv, folder, resume=resume, updates=30)
    (path / "history.json").unlink()  # as if the process had been killed within the first round
    with pytest.raises(InputError, match="diverged"):
        train_tiny(tsv, path, updates=1, optimizer="sgd", learning_rate=1e38)
    assert not (path / "best.keras").exists(), "it has other vocabularies"
    _, lines = train_tiny(tsv, path, resume=True, updates=1)
    assert lines[0].startswith("400 unique pairs") and number_of_updates(path) == [1]


def test_resume_reports_that_a_run_has_already_ended(training_files, trained):
    result, _ = trained
    path, data = result.model_dir, TrainingData(phrase_table=training_files / "table.gz")
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for settings in ({"updates": 25}, {"minutes": result.last.seconds / 61}):
        again, (line,) = train_tiny(data, path, resume=True, **settings)
        assert again.rounds == result.rounds and again.best == result.best and again.signal is None
        assert re.fullmatch(
            f"Nothing to train: the training has already ended. 25 updates, 400 pairs in .*: {path}", line
        ), line
    _, (other, _) = train_tiny(data.replace(phrase_table="other.gz"), path, resume=True, updates=25)
    table = data.phrase_table
    assert other == f"Continuing with the pairs that were prepared from {table}; not read: other.gz."
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("killed_at", ["history", "average", "card"])
def test_resume_completes_what_was_killed_between_its_last_checkpoint_and_its_end(
    tsv, tmp_path, monkeypatch, killed_at
):
    class Killed(BaseException):
        pass

    def kill(*arguments):
        raise Killed

    settings = {"round_updates": 1, "learning_rate": 1e-9, "average_rounds": 2 * (killed_at == "average")}
    train_tiny(tsv, tmp_path / "whole", updates=1, **settings)
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    train_tiny(tsv, tmp_path / "whole", resume=True, updates=2, **settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        owner, method = {
            "history": (Checkpoints, "write_history"),
            "average": (fitting, "add_average"),
            "card": (ModelCard, "write"),
        }[killed_at]
        patch.setattr(owner, method, kill)
        train_tiny(tsv, tmp_path / "killed", resume=True, updates=2, **settings)
    progress = tmp_path / "killed" / "progress.json"
    assert '"failed"' in progress.read_text()
    progress.write_text(progress.read_text().replace('"failed"', '"running"'))  # as after SIGKILL
    _, lines = train_tiny(tsv, tmp_path / "killed", resume=True, updates=2, **settings)
    assert lines[0].startswith("Nothing to train") == (killed_at != "average")
    whole, killed = (tmp_path / name for name in ("whole", "killed"))
    assert number_of_updates(killed) == number_of_updates(whole)
    assert json.loads(progress.read_text())["state"] == "finished" and json.loads(progress.read_text())["done"] == 2
    assert (killed / "settings.toml").read_text() == (whole / "settings.toml").read_text()
    whole_card, killed_card = (
        [line for line in (folder / "README.md").read_text().splitlines() if "Minutes of training" not in line]
        for folder in (whole, killed)
    )
    assert [line.replace("killed", "whole") for line in killed_card] == whole_card
    assert json.loads((killed / "config.json").read_text())["remark"]


def test_a_corrupt_checkpoint_is_an_error_that_names_the_file(training_files, trained, tmp_path):
    model = shutil.copytree(trained[0].model_dir, tmp_path / "m", ignore=shutil.ignore_patterns("previous.keras"))
    data = TrainingData(phrase_table=training_files / "table.gz")
    shutil.copy(model / "best.keras", model / "last.keras")
    with pytest.raises(InputError, match=f"{model}/last.keras: found no history of the training in it, expected a ch"):
        train_tiny(data, model, resume=True, updates=50)
    half = dict(rounds(model)[0], updates=1.5)
    spoilt = [{}, *({"rounds": found} for found in ([], [{}], ["a"], [half]))]
    for history in ((model / "history.json").read_text(), "[" * 100_000, *map(json.dumps, spoilt)):
        shutil.copy(model / "best.keras", model / "last.keras")
        with zipfile.ZipFile(model / "last.keras", "a") as archive:
            archive.writestr("history.json", history)
            archive.writestr("generator.npz", "of nothing")
        with pytest.raises(InputError, match=f"{model}/last.keras: found an invalid history or generator state in it"):
            load_checkpoint(model)
    (model / "last.keras").write_bytes((trained[0].model_dir / "last.keras").read_bytes()[:-500])
    with pytest.raises(
        InputError, match=rf"{model}/last.keras: found a file that cannot be loaded \(not a zip archive"
    ):
        train_tiny(data, model, resume=True, updates=50)


@pytest.mark.usefixtures("eager")
def test_a_run_of_the_first_version_is_resumed(tsv, tmp_path):
    """The first version named the architecture by its cell."""
    settings = {"architecture": "recurrent", "model": {"cell": "gru", "layers": 1}}
    train_tiny(tsv, tmp_path, updates=1, **settings)
    config = json.loads((tmp_path / "config.json").read_text())
    config["training"] |= {"architecture": "gru", "language_model": False}
    config["model"] |= {"bidirectional": None, "source_words": 12, "target_words": 12}
    del config["architecture"], config["has_source"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="found cell=lstm, expected cell=gru as in the run to resume"):
        train_tiny(tsv, tmp_path, resume=True, updates=2, architecture="recurrent", model={"layers": 1})
    result, _ = train_tiny(tsv, tmp_path, resume=True, updates=2, **settings)
    assert result.last.updates == 2


@pytest.mark.usefixtures("eager")
def test_a_model_saved_with_an_unused_attention_score_is_resumed(tsv, tmp_path):
    """Earlier versions saved it with every model, and did not refuse input feeding without attention."""
    settings = {"architecture": "recurrent", "model": {"cell": "gru", "layers": 1}}
    train_tiny(tsv, tmp_path, updates=1, **settings)
    for name in ("best.keras", "last.keras"):
        with zipfile.ZipFile(tmp_path / name) as archive:
            files = {member: archive.read(member) for member in archive.namelist()}
        config = json.loads(files["config.json"])
        assert config["config"]["attention_score"] is None
        config["config"] |= {"attention_score": "general", "input_feeding": False, "bidirectional": None}
        files["config.json"] = json.dumps(config).encode()
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member, data in files.items():
                archive.writestr(member, data)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["sha256"]["best.keras"]  # earlier versions kept no checksum of the weights
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ModelDirectory.load(tmp_path).model.config.attention_score is None
    result, _ = train_tiny(tsv, tmp_path, resume=True, updates=2, **settings)
    assert result.last.updates == 2


@pytest.fixture(scope="module")
def folder(tsv, tmp_path_factory):
    """The model directory of a training run of three rounds."""
    from eagerly import eagerly

    path = tmp_path_factory.mktemp("trained") / "model"
    with eagerly():
        train_tiny(tsv, path, updates=3, round_updates=1)
    return path


def truncated(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def empty(content):
    return b""


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("damage", [truncated, flipped, empty])
def test_the_checkpoint_before_a_damaged_one_is_continued(tsv, folder, tmp_path, damage):
    model = shutil.copytree(folder, tmp_path / "model")
    (model / "last.keras").write_bytes(damage((model / "last.keras").read_bytes()))
    said = (
        rf"{re.escape(str(model))}/last.keras: found .*; continuing from the checkpoint before it, after 2 updates\.$"
    )
    with pytest.warns(EncdecWarning, match=said):
        train_tiny(tsv, model, resume=True, updates=4, round_updates=1)
    assert number_of_updates(model) == [1, 2, 3, 4]
    assert [load_checkpoint(model).progress.updates, has_checkpoint(model)] == [4, True]
    (model / "last.keras").unlink()  # a process may be killed between two renames
    assert load_checkpoint(model).progress.updates == 3 and not (model / "previous.keras").exists()


def test_damaged_checkpoints_without_a_good_one_are_an_error(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "model")
    for name, damage in (("last.keras", truncated), ("previous.keras", flipped)):
        (model / name).write_bytes(damage((model / name).read_bytes()))
    before = {path: path.read_bytes() for path in model.glob("*.keras")}
    with pytest.raises(InputError) as error:
        load_checkpoint(model)
    assert re.fullmatch(
        rf"{re.escape(str(model))}: found no checkpoint that loads: last.keras: found .* cut short\); previous.keras: "
        r"found .*, expected a checkpoint of encdec-train; restore one of the two files, or train again\.",
        str(error.value),
    )
    assert {path: path.read_bytes() for path in model.glob("*.keras")} == before


def test_no_flipped_bit_changes_what_is_loaded(folder, tmp_path):
    """Zip files have a checksum of each member."""
    content = (folder / "last.keras").read_bytes()
    good, path = load_checkpoint(folder), tmp_path / "last.keras"
    loaded = 0
    for position in range(0, len(content), len(content) // 20):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        try:
            found = load_checkpoint(tmp_path)
        except InputError:
            continue
        loaded += 1
        assert found.progress.to_json() == good.progress.to_json()
        assert all((a == b).all() for a, b in zip(found.model.get_weights(), good.model.get_weights(), strict=True))
    assert loaded < 3  # flips of bits that no reader reads, such as the time when a member was written


@pytest.mark.usefixtures("eager")
def test_a_file_is_on_disk_before_it_replaces_another(tsv, tmp_path, monkeypatch):
    calls, flush, replace = [], resumption.flush_to_disk, os.replace

    def logged_flush(path):
        calls.append(f"flush {path.name}")
        flush(path)

    def logged_replace(source, target):
        calls.append(f"replace {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(resumption, "flush_to_disk", logged_flush)
    monkeypatch.setattr(os, "replace", logged_replace)
    train_tiny(tsv, tmp_path / "model", updates=2, round_updates=1)
    for name in ("best.keras", "last.keras"):
        after = calls[calls.index(f"flush .partial-{name}") :]
        assert [call for call in after if call in (f"replace {name}", "flush model")][:2] == [
            f"replace {name}",
            "flush model",
        ]


@pytest.mark.usefixtures("eager")
def test_a_checkpoint_of_the_first_versions_is_resumed(tsv, folder, tmp_path):
    """Its history contains only the rounds, and no previous checkpoint exists."""
    old = shutil.copytree(folder, tmp_path / "old", ignore=shutil.ignore_patterns("*.keras"))
    shutil.copy(folder / "best.keras", old)
    with zipfile.ZipFile(folder / "last.keras") as archive, zipfile.ZipFile(old / "last.keras", "w") as other:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "history.json":
                content = json.dumps({"rounds": json.loads(content)["rounds"]}).encode()
            other.writestr(name, content)
    new = shutil.copytree(folder, tmp_path / "new")
    for path in (old, new):
        train_tiny(tsv, path, resume=True, updates=4, round_updates=1)
        assert number_of_updates(path) == [1, 2, 3, 4]
    weights = [load_model(path / "last.keras").get_weights() for path in (old, new)]
    assert all((one == other).all() for one, other in zip(*weights, strict=True))


@pytest.mark.usefixtures("eager")
def test_a_run_in_a_store_continues_from_the_last_checkpoint_when_its_machine_dies(tsv, tmp_path, monkeypatch):
    pytest.importorskip("fsspec", reason="the extra remote is not installed")
    train_tiny(tsv, tmp_path / "whole", updates=3, round_updates=1)
    url = f"file://{tmp_path}/killed"

    class Killed(BaseException):
        pass

    upload, uploads = StagedFolder.upload_in_background, []

    def upload_and_die(self):
        upload(self)
        concurrent.futures.wait([self._running])  # the next upload would be left out if this one still ran
        uploads.append(self)
        if len(uploads) == 2:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(StagedFolder, "upload_in_background", upload_and_die)
        patch.setattr(StagedFolder, "upload", lambda self: None)  # a machine that dies makes no last upload
        train_tiny(tsv, url, updates=3, round_updates=1)
    assert rounds(tmp_path / "killed") != rounds(tmp_path / "whole")
    result, lines = train_tiny(tsv, url, resume=True, updates=3, round_updates=1)
    assert result.model_dir == url and any(line.endswith(f": {url}") for line in lines)
    for name in ("best.keras", "last.keras"):
        models = [load_model(tmp_path / folder / name) for folder in ("whole", "killed")]
        for one, other in zip(*(model.get_weights() for model in models), strict=True):
            np.testing.assert_array_equal(one, other)
    ModelDirectory.load(tmp_path / "killed")  # its checksums are those of its files
    with pytest.raises(ValueError, match=f"found a model in {url}"):
        train_tiny(tsv, url, updates=3, round_updates=1)
