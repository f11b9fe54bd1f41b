"""The record of how long files of tests take."""

import json
from types import SimpleNamespace

from durations import ROOT, file_seconds, read_durations, record_durations


def test_a_record_replaces_what_was_measured_and_sorts_the_rest(tmp_path):
    for name in ("long_test.py", "short_test.py", "new_test.py", "unmeasured_test.py"):
        (tmp_path / name).touch()
    path = tmp_path / "durations.json"
    path.write_text(json.dumps({"unmeasured_test.py": None, "gone_test.py": 9, "short_test.py": 8, "long_test.py": 7}))
    record_durations({"short_test.py": 1.04, "new_test.py": 3}, path, tmp_path)
    assert list(read_durations(path).items()) == [
        ("unmeasured_test.py", None),
        ("long_test.py", 7),
        ("new_test.py", 3),
        ("short_test.py", 1.0),
    ]


def test_a_file_takes_what_its_tests_and_fixtures_take():
    durations = {"a_test.py::test_b": 1, "a_test.py::TestC::test_d": 2, "b_test.py::test_e": 4}
    reports = [SimpleNamespace(nodeid=nodeid, duration=seconds) for nodeid, seconds in durations.items()]
    assert file_seconds(reports) == {"a_test.py": 3, "b_test.py": 4}


def test_the_recorded_files_exist():
    assert all((ROOT / name).exists() for name in read_durations())
