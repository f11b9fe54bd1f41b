"""The record of a training run in its model directory; what is printed is tested with `keras_encdec.trainers.train`."""

import functools
import json
import re
import signal
import threading
import time
import types

import keras
import pytest
from tiny_trainings import tiny_config, train_tiny

from keras_encdec.backend.replicas import Compilation
from keras_encdec.errors import InputError
from keras_encdec.runtime.progress_state import ProgressRecord
from keras_encdec.trainers import train
from keras_encdec.trainers.callbacks import RoundReports, UpdateReports
from keras_encdec.trainers.checkpoints import Checkpoints
from keras_encdec.trainers.reporting import TrainingReporter


@pytest.mark.usefixtures("eager")
def test_a_run_keeps_its_progress(tsv, tmp_path):
    with ProgressRecord("encdec-train", tmp_path / "given.json"):
        train_tiny(tsv, tmp_path / "model", updates=1)
    for path in (tmp_path / "model" / "progress.json", tmp_path / "given.json"):
        state = json.loads(path.read_text())
        assert (state["task"], state["state"], state["unit"]) == ("encdec-train", "finished", "updates")
        assert (state["done"], state["total"]) == (1, 1)
    train_tiny(tsv, tmp_path / "model", resume=True, updates=2)
    state = json.loads((tmp_path / "model" / "progress.json").read_text())
    assert (state["state"], state["done"]) == ("finished", 2)


@pytest.mark.usefixtures("eager")
def test_a_run_that_a_signal_stops_or_that_fails_says_so(tsv, tmp_path, monkeypatch):
    end = Checkpoints.on_epoch_end

    def signalled(self, *arguments):
        end(self, *arguments)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Checkpoints, "on_epoch_end", signalled)
    train_tiny(tsv, tmp_path / "model", updates=30, round_updates=2)
    state = json.loads((tmp_path / "model" / "progress.json").read_text())
    assert state["state"] == "failed" and 2 <= state["done"] < 30
    assert state["last_error"] == "stopped by signal 15; --resume continues the training"

    def full(self, *arguments):
        raise InputError("found the disk full")

    monkeypatch.setattr(Checkpoints, "on_epoch_end", full)
    with pytest.raises(InputError):
        train_tiny(tsv, tmp_path / "other", updates=30, round_updates=1)
    state = json.loads((tmp_path / "other" / "progress.json").read_text())
    assert (state["state"], state["last_error"]) == ("failed", "found the disk full.")


@pytest.mark.usefixtures("eager")
def test_updates_are_reported_until_the_first_round_has_ended(tsv, tmp_path, monkeypatch):
    monkeypatch.setattr(UpdateReports.__init__, "__defaults__", (0.0,))
    _, lines = train_tiny(tsv, tmp_path / "model", updates=8, round_updates=6)
    updates = [line for line in lines if re.fullmatch(r"\d+ updates, [\d,]+ pairs/s, loss [\d.]+ .*", line)]
    first_round = next(i for i, line in enumerate(lines) if line.startswith("Round 1"))
    assert len(updates) >= 5 and all(line in lines[:first_round] for line in updates)


@pytest.mark.usefixtures("eager")
def test_lines_on_a_terminal_are_not_written_into_the_bar(tsv, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(UpdateReports.__init__, "__defaults__", (0.0,))
    lines = []
    reporter = TrainingReporter(lines.append, bar=True)

    class AfterUpdate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 0:
                reporter.compiling([(16, 9)])

    callbacks = reporter.callbacks
    monkeypatch.setattr(reporter, "callbacks", lambda *arguments: [*callbacks(*arguments), AfterUpdate()])
    train(tiny_config(updates=2), tsv, tmp_path / "model", reporter=reporter)
    assert "\nCompiling for batches of the shape 16 x 9." in lines
    reporter.waiting("Update 9", 30)  # the bar has ended with a line break
    assert lines[-1] == "Update 9 has taken 30 s so far."
    assert re.search(r"Round 1: 0 updates, 0\.00 epochs, \d+ s\n", capsys.readouterr().out)


def test_the_rate_and_the_time_left_of_a_round_do_not_count_compiling():
    calls, budget = [], types.SimpleNamespace(seconds=0.0, done=0.0, updates_done=0, updates_per_epoch=20)
    reporter = types.SimpleNamespace(round_ended=lambda *arguments: calls.append(arguments))
    a_round = {"updates": 10, "pairs": 160, "seconds": 8.0, "learning_rate": 1.0}
    reports = RoundReports(reporter, budget, types.SimpleNamespace(rounds=[a_round]))
    reports.on_train_begin()
    budget.seconds, budget.done, budget.updates_done = 8.0, 0.25, 10  # without the time of compiling
    reports.on_epoch_end(0)
    ((number, _, epochs, rate, left),) = calls
    assert (number, epochs, rate, left) == (1, 0.5, 20.0, 24.0)


def test_what_takes_long_is_reported_while_it_lasts():
    lines, said = [], threading.Event()

    class Reporter(TrainingReporter):
        def waiting(self, task, seconds):
            super().waiting(task, seconds)
            said.set()

    budget, compilation = types.SimpleNamespace(seconds=0.0, updates_done=2), Compilation()
    reports = UpdateReports(Reporter(lines.append), budget, 16, compilation, pause=0.0)
    with reports:
        compiling = functools.partial(setattr, compilation, "shapes", 1)
        for begin, task in (
            (reports.on_train_begin, "Update 3"),
            (compiling, "Compiling"),
            (functools.partial(reports.on_train_batch_end, 0, {"perplexity": 2.0}), "Update 3"),
            (reports.on_test_begin, "The validation"),
        ):
            said.clear()
            begin()
            assert said.wait(10)
            assert re.fullmatch(rf"{task} has taken \d s so far\.", lines[-1])
        reports.on_epoch_end(0)
        lines.clear()
    assert not lines


def test_an_update_that_has_just_begun_is_not_reported_as_slow():
    lines, budget = [], types.SimpleNamespace(seconds=0.0, updates_done=0)
    reports = UpdateReports(TrainingReporter(lines.append), budget, 16, Compilation(), pause=2.4)
    with reports:
        reports.on_train_begin()
        end = time.monotonic() + 2.7
        while time.monotonic() < end:
            time.sleep(0.18)
            budget.updates_done += 1
            budget.seconds += 0.18
            reports.on_train_batch_end(0, {"perplexity": 2.0})
    assert len(lines) == 1 and re.fullmatch(
        r"\d+ updates, \d+ pairs/s, loss 0\.693 nats per token \(perplexity 2\.000\)\.", lines[0]
    )
