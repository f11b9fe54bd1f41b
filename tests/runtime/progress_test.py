"""Tests of progress while a file is read."""

import gzip
import io
import re

import pytest

from keras_encdec.formats import InputLines
from keras_encdec.runtime.progress import CountedWork, Progress, ReadingProgress
from keras_encdec.runtime.progress_state import ProgressRecord


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "lines").write_bytes(b"0123456789\n" * 100_000)
    with InputLines(tmp_path / "lines") as lines:
        yield lines


def read(lines, progress, count):
    for _ in range(count):
        next(iter(lines))
    progress.add(count)


def test_lines_are_counted(lines):
    with Progress(lines) as progress:
        read(lines, progress, 2)
        read(lines, progress, 1)
    assert progress.count == 3 and progress.rate == pytest.approx(3 / progress.seconds, rel=0.5)


def test_a_terminal_gets_a_bar(lines):
    with ReadingProgress(lines, stream=(stream := Terminal())) as progress:
        read(lines, progress, 100_000)
    assert "100%" in stream.getvalue() and "lines/s" in stream.getvalue()


def test_a_stream_that_is_not_a_terminal_gets_plain_lines(lines):
    with ReadingProgress(lines, stream=(stream := io.StringIO())) as progress:
        read(lines, progress, 1000)
    assert stream.getvalue() == "", "before the first minute has passed"
    with ReadingProgress(lines, stream=(stream := io.StringIO()), pause=0) as progress:
        read(lines, progress, 50_000)
        read(lines, progress, 49_000)
    first, last = stream.getvalue().splitlines()
    assert re.fullmatch(r"50,000 lines, [\d,]+ lines/s, \d\d% read, about 1 min left", first)
    assert re.fullmatch(r"99,000 lines, [\d,]+ lines/s, 100% read, about 1 min left", last)


def test_slow_work_that_is_not_a_file_shows_the_time_of_each_step(monkeypatch):
    work = CountedWork(10)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    plain, terminal = io.StringIO(), Terminal()
    shown = [ReadingProgress(work, "rounds of alignment", stream, pause=0) for stream in (plain, terminal)]
    monkeypatch.setattr("time.monotonic", lambda: 50.0)
    work.size_done = 1
    for progress in shown:
        progress.add(1)
        progress.close()
    assert plain.getvalue() == "1 round of alignment, 50 s each, 10% done, about 8 min left\n"
    assert "50 s each" in terminal.getvalue() and "B/s" not in terminal.getvalue()


def test_a_long_time_left_is_shown_in_hours(lines, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    progress = ReadingProgress(lines, stream=(stream := io.StringIO()), unit="pairs", pause=0)
    monkeypatch.setattr("time.monotonic", lambda: 3600.0)
    read(lines, progress, 30_000)
    assert re.fullmatch(r"30,000 pairs, 8 pairs/s, 3\d% read, about [12] h \d+ min left\n", stream.getvalue())


def test_lines_that_were_done_before_count_for_neither_rate_nor_time_left(lines, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    with ProgressRecord("encdec-score") as record:
        progress = ReadingProgress(lines, stream=(stream := io.StringIO()), pause=0)
        monkeypatch.setattr("time.monotonic", lambda: 600.0)
        progress.before = 80_000
        read(lines, progress, 80_000)
        read(lines, progress, 2_000)
        state = record.state
    first, last = stream.getvalue().splitlines()
    assert first == "80,000 lines, 0 lines/s"
    assert re.fullmatch(r"82,000 lines, 3 lines/s, 8\d% read, about 1 h \d+ min left", last)
    assert state.rate == pytest.approx(2000 / 600, abs=0.001) and 3600 < state.eta_seconds < 7200


def test_no_time_left_is_shown_for_a_pipe(tmp_path, monkeypatch):
    (tmp_path / "lines.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    with InputLines(tmp_path / "lines.gz") as lines:
        monkeypatch.setattr(lines, "size", 0)
        with ReadingProgress(lines, stream=(stream := io.StringIO()), pause=0) as progress:
            read(lines, progress, 2)
    assert re.fullmatch(r"2 lines, [\d,]+ lines/s\n", stream.getvalue())
