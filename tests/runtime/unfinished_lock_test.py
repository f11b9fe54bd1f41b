"""Tests of the lock of a directory: one job at a time, in this process and in others."""

import errno
import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys

import pytest

from keras_encdec.errors import InputError
from keras_encdec.runtime.unfinished import directory_lock, remove_unfinished

HOLD = """
import sys
from keras_encdec.runtime.unfinished import directory_lock
with directory_lock(sys.argv[1], "training", "--model_dir"):
    print("locked", flush=True)
    sys.stdin.read()
"""


def lock(folder):
    return directory_lock(folder, "training", "--model_dir")


def refused(folder, process):
    """The error of a second job names the process that holds the lock."""
    expected = (
        f"{folder}: found another training at work in this directory (process {process} on {socket.gethostname()}), "
        "expected one at a time; wait until it ends, or give another --model_dir."
    )
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"), lock(folder):
        raise AssertionError("the lock let a second job in")


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of tmp_path/model."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path / "model"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "locked\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_job_of_this_process_is_refused_until_the_first_ends(tmp_path):
    with lock(tmp_path / "model"):
        refused(tmp_path / "model", os.getpid())
        refused(tmp_path / "model", os.getpid())
        with directory_lock(tmp_path / "model", "experiment", "--output"):
            assert sorted(os.listdir(tmp_path / "model")) == [".experiment.lock", ".training.lock"]
    with lock(tmp_path / "model"):
        pass
    assert os.listdir(tmp_path) == []


def test_an_error_of_the_job_is_reported_even_if_the_lock_file_cannot_be_removed(tmp_path):
    model = tmp_path / "model"
    with pytest.raises(InputError, match="found no disk"), lock(model):
        shutil.rmtree(model)
        model.touch()  # no file can be removed below a file
        raise InputError("found no disk")


def test_a_job_of_another_process_is_named(holder, tmp_path):
    refused(tmp_path / "model", holder.pid)
    holder.communicate()
    assert holder.returncode == 0 and os.listdir(tmp_path) == []


def test_the_lock_of_a_killed_process_is_free(holder, tmp_path):
    holder.kill()
    holder.wait()
    assert os.listdir(tmp_path / "model") == [".training.lock"]
    with lock(tmp_path / "model"):
        refused(tmp_path / "model", os.getpid())
    assert os.listdir(tmp_path) == []


def test_files_in_the_directory_stay(tmp_path):
    with pytest.raises(ZeroDivisionError), lock(tmp_path):
        (tmp_path / "weights").touch()
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["weights"]


def test_a_process_that_is_being_ended_removes_the_lock_file(tmp_path):
    with lock(tmp_path):
        remove_unfinished()
        assert os.listdir(tmp_path) == []


def test_an_empty_directory_is_removed_with_those_above_it(tmp_path):
    with pytest.raises(InputError), lock(tmp_path / "trained" / "model"):
        raise InputError("found no pairs")
    assert os.listdir(tmp_path) == []
    with lock(tmp_path / "trained" / "model"):
        remove_unfinished()  # as in a process that is being ended
        assert os.listdir(tmp_path) == []


def test_a_job_that_ends_while_the_next_begins_does_not_stop_it(tmp_path, monkeypatch):
    flock, removed = fcntl.flock, []

    def flock_after_removal(descriptor, operation):
        if not removed and operation & fcntl.LOCK_EX:
            removed.append((tmp_path / ".training.lock").unlink())
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_removal)
    with lock(tmp_path):
        assert removed and (tmp_path / ".training.lock").exists()
        refused(tmp_path, os.getpid())


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_lets_every_job_in(number, tmp_path, monkeypatch):
    def without_locks(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", without_locks)
    with lock(tmp_path / "model"), lock(tmp_path / "model"):
        assert os.listdir(tmp_path / "model") == [".training.lock"]
    assert os.listdir(tmp_path) == []


def test_a_directory_that_cannot_be_made_or_locked_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: found a file of this name when trying to make a directory"):
        with lock(tmp_path / "file"):
            pass
    (tmp_path / ".training.lock").mkdir()
    with pytest.raises(InputError, match=r"\.training\.lock: found a directory when trying to lock the directory"):
        with lock(tmp_path):
            pass
