"""A little of `tests/fuzzing/fuzz.py`: with damaged files, readers and tasks raise the package's errors."""

import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "fuzzing"))

import fuzz
import targets
from damage import damaged


@pytest.fixture(scope="module")
def every_target(tmp_path_factory):
    return targets.all_targets(tmp_path_factory.mktemp("models"), with_tasks=True)


def crashes(target, folder, name, inputs):
    found = []
    for number in range(inputs):
        error = fuzz.run_input(target, folder / "files", random.Random(f"suite {name} {number}"))
        if error is not None:
            found.append((number, error))
    return found


@pytest.mark.parametrize("name", targets.readers())
def test_readers_survive_damaged_files(every_target, tmp_path, name):
    fuzz.write_files(every_target[name].files, tmp_path / "files")
    every_target[name].run(tmp_path / "files")  # the good files are read
    assert not crashes(every_target[name], tmp_path, name, 150)


@pytest.mark.parametrize("name", ["score a table", "score an n-best list", "select", "extract", "tune", "decode"])
@pytest.mark.usefixtures("uncompiled")
def test_tasks_survive_damaged_files(every_target, tmp_path, name):
    assert not crashes(every_target[name], tmp_path, name, 25)


def test_exceptions_other_than_the_packages_own_are_crashes(tmp_path):
    def lose(folder):
        raise targets.LostLine("one")

    def show_control_characters(folder):
        raise ValueError("\x1b[31m")

    for run in (lose, show_control_characters, lambda folder: [].pop(), lambda folder: sys.exit(3)):
        target = targets.Target({"table": targets.TABLE}, run)
        assert fuzz.run_input(target, tmp_path / "files", random.Random(1)) is not None


def test_equal_seeds_give_equal_damages():
    results = [[damaged(targets.TABLE, random.Random(f"{seed} {i}")) for i in range(200)] for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]
    assert sum(result != targets.TABLE for result in results[0]) > 180
