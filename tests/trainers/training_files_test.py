"""The files of a training run in its model directory."""

import pathlib
import tomllib

import pytest
from tiny_trainings import number_of_updates, train_tiny

from keras_encdec.errors import InputError


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", ["config.json", "source.vocab", "settings.toml", "history.json"])
def test_a_file_that_no_training_wrote_is_not_replaced(tsv, tmp_path, name):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / name).write_text('{"mine": 1}')
    for resume in (False, True):
        with pytest.raises(InputError, match=f"m/{name}: found a file that encdec-train did not write, expected no"):
            train_tiny(tsv, tmp_path / "m", resume=resume, updates=1)
    assert [path.name for path in (tmp_path / "m").iterdir()] == [name]
    assert (tmp_path / "m" / name).read_text() == '{"mine": 1}'


def test_a_model_directory_whose_path_is_not_utf8_is_refused(tsv, tmp_path):
    """TensorBoard could not write to it."""
    with pytest.raises(InputError, match=r"caf\\xe9/m: found bytes that are not UTF-8 in this path; rename it"):
        train_tiny(tsv, tmp_path / "caf\udce9" / "m", updates=1)


@pytest.mark.usefixtures("eager")
def test_an_empty_path_stays_empty_in_the_settings(tsv, tmp_path):
    train_tiny(tsv.replace(phrase_table=""), tmp_path, updates=1, initial_model="")
    settings = tomllib.loads((tmp_path / "settings.toml").read_text())
    assert [settings["data"]["phrase_table"], settings["training"]["initial_model"]] == ["", ""]
    assert settings["data"]["tsv"] == str(pathlib.Path(tsv.tsv).absolute())


@pytest.mark.usefixtures("eager")
def test_a_training_that_was_killed_before_its_first_checkpoint_is_replaced(tsv, tmp_path):
    train_tiny(tsv, tmp_path, updates=1)
    for name in ("last.keras", "history.json"):
        (tmp_path / name).unlink()
    train_tiny(tsv, tmp_path, updates=2)
    for name in ("last.keras", "history.json", "config.json"):  # as if killed before config.json was written
        (tmp_path / name).unlink()
    train_tiny(tsv, tmp_path, updates=3)
    assert number_of_updates(tmp_path) == [3]
