"""The state of a task in a file: while it runs, after its end, and after errors."""

import json
import threading

import pytest

from keras_encdec.errors import InputError
from keras_encdec.formats import InputLines
from keras_encdec.runtime import progress_state
from keras_encdec.runtime.progress import ReadingProgress
from keras_encdec.runtime.progress_state import ProgressRecord, count_errors, current_record


@pytest.fixture
def path(tmp_path):
    return tmp_path / "progress.json"


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that stands still until it is moved."""
    now = [100.0]
    monkeypatch.setattr(progress_state.time, "monotonic", lambda: now[0])
    return now


def read(path):
    return json.loads(path.read_text())


def test_a_state_has_everything_that_a_monitor_needs(path, clock, monkeypatch):
    monkeypatch.setattr(progress_state, "_now", lambda: f"{clock[0]:.0f} s")
    with ProgressRecord("encdec-score", path) as record:
        assert read(path)["state"] == "running" and read(path)["done"] == 0
        record.begin("lines")
        assert (read(path)["step"], read(path)["unit"]) == (1, "lines")
        clock[0] += 10
        record.update(200, share=0.25)
        state = read(path)
        assert (state.pop("started"), state.pop("updated")) == ("100 s", "110 s") and state.pop("process") > 0
        assert state == {
            "task": "encdec-score",
            "state": "running",
            "step": 1,
            "unit": "lines",
            "done": 200,
            "total": 800,
            "rate": 20.0,
            "eta_seconds": 30.0,
            "errors": 0,
            "last_error": None,
        }
    assert (read(path)["state"], read(path)["total"], read(path)["eta_seconds"]) == ("finished", 200, 0.0)
    assert [child.name for child in path.parent.iterdir()] == [path.name]


def test_times_are_in_utc(path):
    with ProgressRecord("encdec-score", path):
        assert read(path)["started"].endswith("+00:00")


def test_it_is_written_at_most_every_two_seconds_and_at_the_end(path, clock):
    with ProgressRecord("encdec-score", path) as record:
        record.begin("lines")
        for done in range(5):
            clock[0] += 1
            record.update(done)
            assert read(path)["done"] == (0 if done < 1 else done if done % 2 else done - 1)
        record.update(9)
    assert read(path)["done"] == 9


def test_a_step_that_an_earlier_process_began_has_the_rate_of_this_one(path, clock):
    with ProgressRecord("encdec-train", path) as record:
        record.begin("updates", done=600, share=0.6)
        clock[0] += 10
        record.update(700, share=0.7)
        assert (record.state.rate, round(record.state.eta_seconds), record.state.total) == (10.0, 30, 1000)


def test_a_failure_is_in_the_file(path):
    with pytest.raises(InputError), ProgressRecord("encdec-score", path):
        count_errors(1, "table, line 2: found no target.")
        assert current_record().state.errors == 1
        raise InputError("found the disk full")
    state = read(path)
    assert (state["state"], state["errors"], state["last_error"]) == ("failed", 2, "found the disk full.")
    with pytest.raises(KeyboardInterrupt), ProgressRecord("encdec-score", path):
        raise KeyboardInterrupt(15)
    assert (read(path)["state"], read(path)["last_error"]) == ("failed", "interrupted")


def test_a_record_within_another_passes_everything_on(path, tmp_path):
    with ProgressRecord("encdec-train", path) as outer:
        with ProgressRecord("training", tmp_path / "inner.json") as inner:
            assert current_record() is inner
            inner.begin("updates", 10)
            inner.update(20, 40)
            inner.count_errors(1, "once")
            inner.fail("stopped by signal 15")
        assert (outer.state.done, outer.state.total, outer.state.errors) == (20, 40, 2)
    assert read(path)["state"] == read(tmp_path / "inner.json")["state"] == "failed"
    assert current_record() is None


def test_errors_of_all_threads_are_counted():
    with ProgressRecord("encdec-client") as record:
        threads = [threading.Thread(target=lambda: [count_errors(1, "e") for _ in range(500)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert record.state.errors == 4000
    count_errors(1, "without a record, nothing happens")


def test_a_file_of_another_kind_is_not_overwritten(path):
    path.write_text("le chat ||| the cat\n")
    with pytest.raises(InputError, match="a file that is not a progress record"), ProgressRecord("encdec-score", path):
        pass
    assert path.read_text() == "le chat ||| the cat\n"
    folder = path.parent
    with pytest.raises(InputError, match="found a directory when .*; name a file"), ProgressRecord("score", folder):
        pass
    assert list(folder.iterdir()) == [path]
    with pytest.raises(InputError, match="is not a progress record"), ProgressRecord("encdec-score", "/dev/null"):
        pass
    with pytest.raises(InputError, match="no such file"), ProgressRecord("encdec-score", path.parent / "no" / "file"):
        pass


def test_a_folder_that_vanishes_does_not_stop_the_work(tmp_path, clock):
    folder = tmp_path / "folder"
    folder.mkdir()
    with ProgressRecord("encdec-score", folder / "progress.json") as record:
        (folder / "progress.json").unlink()
        folder.rmdir()
        clock[0] += 5
        record.update(3)
    assert record.state.state == "finished"


def test_reading_progress_feeds_the_record(tmp_path):
    (tmp_path / "lines").write_bytes(b"0123456789\n" * 50_000)
    with ProgressRecord("encdec-score") as record, InputLines(tmp_path / "lines") as lines:
        with ReadingProgress(lines, "pairs") as progress:
            for _ in range(100):
                next(iter(lines))
            progress.add(100)
        assert (record.state.step, record.state.unit, record.state.done) == (1, "pairs", 100)
        assert record.state.total > 100
        ReadingProgress(lines, "words")
        assert (record.state.step, record.state.unit, record.state.done) == (2, "words", 0)
