"""The versions in a folder, their labels, and the server's files beside them."""

import os
import signal
import subprocess
import sys

import pytest
from export_folders import names

from keras_encdec.errors import InputError
from keras_encdec.export import export_model
from keras_encdec.export.versions import new_version, version_folder

KILLED = """
import sys, time
from keras_encdec.export.versions import new_version
with new_version(sys.argv[1]) as made:
    (made.path / "saved_model.pb").write_text("half of it")
    print("at work", flush=True)
    time.sleep(600)
"""


def test_a_killed_export_leaves_no_version_and_the_next_export_cleans_up(quick_export, model_dir, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"at work\n"
    export_model(model_dir, tmp_path)
    assert [name for name in names(tmp_path) if name.startswith(".version")], "it was still being written"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [name for name in names(tmp_path) if name.startswith(".version")]
    assert export_model(model_dir, tmp_path).version == 2
    assert names(tmp_path) == ["1", "2", "batching_parameters.txt", "models.config"]


def test_a_version_in_place_of_the_folder_of_all_versions_is_reported(tmp_path, monkeypatch):
    (tmp_path / "served" / "1").mkdir(parents=True)
    (tmp_path / "served" / "1" / "saved_model.pb").touch()
    assert version_folder(tmp_path / "served") == tmp_path / "served" / "1"
    monkeypatch.chdir(tmp_path)
    for folder in ("served/1", "served/1/"):
        with pytest.raises(InputError, match="found a single version, expected .*; give the directory above, served.$"):
            version_folder(folder)
    monkeypatch.chdir("served/1")
    with pytest.raises(InputError, match=r"give the directory above, \.\..$"):
        version_folder(".")


@pytest.mark.parametrize("there, number", [(1, -1), (1, 0), (1, 2**63), (2**63 - 1, None)])
def test_a_number_too_large_for_a_server_is_refused(tmp_path, there, number):
    (tmp_path / str(there)).mkdir()
    with pytest.raises(InputError, match="for the new version, expected 1 to 9223372036854775807; give another"):
        with new_version(tmp_path, number) as made:
            (made.path / "saved_model.pb").touch()
    assert os.listdir(tmp_path) == [str(there)]


def test_a_failed_export_leaves_no_empty_folders(tmp_path):
    with pytest.raises(InputError), new_version(tmp_path / "new" / "served") as made:
        (made.path / "saved_model.pb").touch()
        raise InputError("found the disk full")
    assert os.listdir(tmp_path) == []
