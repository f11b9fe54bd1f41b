"""The files of the checkpoints: that they reach the disk, and what happens if one is damaged."""

import json
import os
import re
import shutil
import zipfile

import pytest
from tiny_trainings import number_of_updates, train_tiny

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_directory import load_model
from keras_encdec.trainers import checkpoint_file
from keras_encdec.trainers.checkpoint_file import has_checkpoint, load_checkpoint


@pytest.fixture(scope="module")
def folder(tsv, tmp_path_factory):
    """The model directory of a training of three rounds."""
    from eagerly import eagerly

    path = tmp_path_factory.mktemp("trained") / "model"
    with eagerly():
        train_tiny(tsv, path, updates=6, round_updates=2)
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
        rf"{re.escape(str(model))}/last.keras: found .*; continuing from the checkpoint before it, after 4 updates\.$"
    )
    with pytest.warns(EncdecWarning, match=said):
        train_tiny(tsv, model, resume=True, updates=7, round_updates=2)
    assert number_of_updates(model) == [2, 4, 6, 7]
    assert [load_checkpoint(model).progress.updates, has_checkpoint(model)] == [7, True]
    (model / "last.keras").unlink()  # a process may be killed between two renames
    assert load_checkpoint(model).progress.updates == 6 and not (model / "previous.keras").exists()


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
    for position in range(0, len(content), len(content) // 40):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        try:
            found = load_checkpoint(tmp_path)
        except InputError:
            continue
        loaded += 1
        assert found.progress.to_json() == good.progress.to_json()
        assert all((a == b).all() for a, b in zip(found.model.get_weights(), good.model.get_weights(), strict=True))
    assert loaded < 4  # of what no reader reads, such as the time when a member was written


@pytest.mark.usefixtures("eager")
def test_a_file_is_on_the_disk_before_it_replaces_another(tsv, tmp_path, monkeypatch):
    calls, flush, replace = [], checkpoint_file.flush_to_disk, os.replace

    def logged_flush(path):
        calls.append(f"flush {path.name}")
        flush(path)

    def logged_replace(source, target):
        calls.append(f"replace {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(checkpoint_file, "flush_to_disk", logged_flush)
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
    """It has the rounds alone, and stands alone."""
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
        train_tiny(tsv, path, resume=True, updates=8, round_updates=2)
        assert number_of_updates(path) == [2, 4, 6, 8]
    weights = [load_model(path / "last.keras").get_weights() for path in (old, new)]
    assert all((one == other).all() for one, other in zip(*weights, strict=True))
