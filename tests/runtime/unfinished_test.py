"""Tests of temporary files and folders, and of removing them."""

import contextlib
import gzip
import os
import tempfile

import pytest

from keras_encdec.errors import InputError
from keras_encdec.runtime.open_output import open_output
from keras_encdec.runtime.unfinished import (
    new_folder,
    remove_unfinished,
    temporary_folder,
    temporary_folder_beside,
    unfinished,
)


def test_only_files_of_killed_processes_are_removed(tmp_path):
    left = [".out.gz.0123abcd.tmp", ".other.0123abcd.tmp", ".out.gz.notes.tmp", ".out.gz.0123abcd.tmp.mine"]
    for name in left:
        (tmp_path / name).write_bytes(b"half")
    with open_output(tmp_path / "out.gz") as file, open_output(tmp_path / "out.gz") as beside:
        assert set(left) & set(os.listdir(tmp_path)) == set(left[1:])
        file.write(b"first")
        beside.write(b"second")
    assert sorted(os.listdir(tmp_path)) == sorted([*left[1:], "out.gz"])
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == b"first"


def test_a_temporary_folder_is_removed_by_its_process_or_the_next_one(tmp_path):
    left = tmp_path / ".out.0123abcd.tmp"
    left.mkdir()
    (left / "half").touch()
    with temporary_folder_beside(f"{tmp_path}/out") as folder:
        assert os.listdir(tmp_path) == [os.path.basename(folder)]
        open(os.path.join(folder, "more"), "w").close()
        with temporary_folder_beside(f"{tmp_path}/out") as other, open_output(tmp_path / "out"):
            assert len({folder, other} & {str(path) for path in tmp_path.iterdir()}) == 2
    assert os.listdir(tmp_path) == ["out"]


def test_temporary_files_that_a_killed_process_left_are_removed_by_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("encdec-0123abcd.tmp", "encdec-0123abcd.tmp-kept", "encdec-mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    os.mkfifo(tmp_path / "encdec-89abcdef.tmp")  # perhaps another user's, which must not hold the command up
    with temporary_folder() as folder, temporary_folder() as other:
        assert os.stat(folder).st_mode & 0o777 == 0o700
        expected = {"encdec-0123abcd.tmp-kept", "encdec-mine", "encdec-89abcdef.tmp"}
        assert set(os.listdir(tmp_path)) == expected | {os.path.basename(each) for each in (folder, other)}
    assert set(os.listdir(tmp_path)) == expected


def test_remove_unfinished_removes_only_unfinished_files_and_folders(tmp_path):
    (tmp_path / "done").touch()
    with contextlib.suppress(InputError), open_output(tmp_path / "file"), unfinished(tmp_path / "folder"):
        (tmp_path / "folder" / "inner").mkdir(parents=True)
        with unfinished(tmp_path / "done"):
            pass
        assert len(os.listdir(tmp_path)) == 3
        remove_unfinished()
        assert os.listdir(tmp_path) == ["done"]
    remove_unfinished()
    assert os.listdir(tmp_path) == ["done"]


def test_a_signal_while_the_file_is_made_leaves_nothing(tmp_path, monkeypatch):
    made = []

    def interrupted(path, *arguments):
        made.append(path)
        os.close(os_open(path, *arguments))
        raise KeyboardInterrupt

    os_open = os.open
    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), open_output(tmp_path / "out"):
        pass
    assert len(made) == 1 and os.listdir(tmp_path) == []


def test_a_new_folder_is_removed_with_its_parents_unless_something_was_written(tmp_path):
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "there", tmp_path / "there" / "a" / "b"):
        with pytest.raises(KeyboardInterrupt), new_folder(folder):
            raise KeyboardInterrupt
        assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with new_folder(tmp_path / "a" / "b"):
        remove_unfinished()  # as where a signal ends the process in the middle of a long call
        assert not (tmp_path / "a").exists()
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "a" / "b") as folder:
        (folder.parent / "file").touch()
        raise KeyboardInterrupt
    assert not folder.exists() and (tmp_path / "a" / "file").exists()
    with new_folder(tmp_path / "a" / "b") as folder:
        pass
    remove_unfinished()
    assert folder.is_dir()
    with pytest.raises(InputError, match="a/file/b: found a file where the path needs a directory"):
        with new_folder(tmp_path / "a" / "file" / "b"):
            pass
