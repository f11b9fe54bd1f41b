"""The names of the packaged models."""

import pathlib
import subprocess
import sys

import pytest

from keras_encdec.errors import InputError
from keras_encdec.model_config import PACKAGED, STARTER, check_model_directory, model_path, packaged_models, short_name
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import TextScorer

FOLDER = PACKAGED / STARTER


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Runs each test in an empty working directory."""
    monkeypatch.chdir(tmp_path)


def test_a_name_is_that_of_the_model_unless_there_is_such_a_path():
    assert packaged_models() == [STARTER]
    assert model_path(STARTER) == model_path(pathlib.Path(STARTER)) == FOLDER
    assert model_path(f"./{STARTER}") == pathlib.Path(STARTER) and model_path("other") == pathlib.Path("other")
    pathlib.Path(STARTER).mkdir()
    assert model_path(STARTER) == pathlib.Path(STARTER)
    with pytest.raises(InputError, match="^libreoffice_en_fr: found no config.json in it, expected a model directory"):
        check_model_directory(STARTER)


def test_the_short_name_of_a_tasks_model_has_the_name_of_its_model_directory(tmp_path):
    task = tmp_path / "models" / "several" / "tasks" / "de"
    task.mkdir(parents=True)
    assert short_name(task) == "tasks/de"
    (tmp_path / "models" / "several" / "config.json").touch()
    assert short_name(task) == "models/several/tasks/de"


def test_an_unknown_name_is_an_error_that_lists_the_names():
    expected = (
        r"french: found no such directory, expected .* encdec-train, "
        r"or the name of a packaged model .*\(libreoffice_en_fr\)"
    )
    for load in (check_model_directory, ModelDirectory.load, TextScorer.open):
        with pytest.raises(InputError, match=expected):
            load("french")
    with pytest.raises(InputError) as raised:
        check_model_directory("models/french")
    assert "of the package" not in str(raised.value)


@pytest.mark.parametrize("path", [f"{STARTER}/", f"./{STARTER}"])
def test_a_name_with_a_slash_is_a_path_and_the_error_says_so(path):
    with pytest.raises(InputError, match=r"found no such directory.*_fr\); give the name without a slash"):
        check_model_directory(path)
    pathlib.Path(STARTER).mkdir()
    with pytest.raises(InputError, match="found no config.json in it.*; check the path"):
        check_model_directory(path)


def test_a_name_is_found_without_keras():
    code = f"from keras_encdec.model_config import *; check_model_directory({STARTER!r}); import sys; "
    subprocess.run([sys.executable, "-c", f"{code} assert 'keras' not in sys.modules"], check=True)
