"""The checkpoints and the best model that a training run saves, on each backend."""

import contextlib
import shutil
import signal

import keras
import numpy as np
import pytest
from recurrent_toys import stirred, toy
from tiny_trainings import number_of_updates, rounds, tiny_config, train_tiny

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.trainers import TrainingConfig, TrainingData, TrainingReporter, train
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import HELD_OUT_BLEU, PERPLEXITY, Checkpoints
from keras_encdec.trainers.resumption import Progress, load_checkpoint


class Killed(Exception):
    pass


class Interrupting(TrainingReporter):
    """Interrupts training at an update, before the checkpoint that may follow it."""

    def __init__(self, update, interrupt):
        super().__init__(lambda line: None)
        self._update, self._interrupt = update, interrupt

    def callbacks(self, budget, updates_per_epoch):
        def interrupt(batch, logs):
            if budget.updates_done == self._update:
                self._interrupt()

        return [keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)]


def kill():
    raise Killed


def terminate():
    signal.raise_signal(signal.SIGTERM)


def assert_same_training(one, other):
    """Asserts that two training runs have exactly the same weights, optimizers and measurements."""
    for name in ("best.keras", "last.keras"):
        is_last = name == "last.keras"
        models = [load_model(folder / name, compiled=is_last) for folder in (one, other)]
        variables = [model.variables + model.optimizer.variables if is_last else model.weights for model in models]
        for mine, its in zip(*variables, strict=True):
            np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (mine, its)), err_msg=mine.path)
    histories = [rounds(folder) for folder in (one, other)]
    for past in (past for history in histories for past in history):
        del past["seconds"]
    assert histories[0] == histories[1]


RECURRENT = {"architecture": "recurrent", "model": {"cell": "gru", "layers": 1, "dropout": 0.5}}


@pytest.mark.usefixtures("eager", "signals_obeyed")
@pytest.mark.parametrize(
    "settings",
    [
        {**RECURRENT, "schedule": "cosine", "label_smoothing": 0.1, "average_rounds": 2},
        {
            **RECURRENT,
            "schedule": "halving",
            "halving_start": 0.1,
            "halving_every": 0.1,
            "warmup_updates": 3,
            "gradual_pruning": 0.7,
            "pruning_scheme": "class_uniform",
            "average_rounds": 2,
        },
    ],
    ids=["cosine", "pruning"],
)
def test_an_interrupted_run_ends_with_the_weights_of_an_uninterrupted_one(tsv, tmp_path, settings):
    settings = {"updates": 8, "round_updates": 3, **settings}
    train_tiny(tsv, tmp_path / "whole", **settings)
    # Each with the minutes between checkpoints, and the update of the last checkpoint. The last one ends a round.
    interruptions = [(2, kill, 1e-9, 1), (2, terminate, 15, 2), (5, kill, 1e-9, 4), (7, kill, 15, 6)]
    for update, interrupt, minutes, saved in interruptions:
        keras.utils.set_random_seed(update)  # as in another process
        config = tiny_config(**settings, checkpoint_minutes=minutes)
        with contextlib.suppress(Killed):
            result = train(config, tsv, tmp_path / "stopped", resume=True, reporter=Interrupting(update, interrupt))
            assert (result.signal, result.updates) == (signal.SIGTERM, update)
        done = load_checkpoint(tmp_path / "stopped").progress
        assert (done.updates, len(done.rounds)) == (saved, saved // 3)
    (tmp_path / "stopped" / "last.keras").write_bytes(b"damaged")
    with pytest.warns(EncdecWarning, match="continuing from the checkpoint before it, after 4 updates"):
        train_tiny(tsv, tmp_path / "stopped", resume=True, **settings)
    assert_same_training(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.usefixtures("eager")
def test_a_run_that_was_killed_before_it_averaged_its_rounds_can_be_trained_on_exactly(tsv, tmp_path, monkeypatch):
    settings = {**RECURRENT, "round_updates": 1, "average_rounds": 2}
    train_tiny(tsv, tmp_path / "whole", updates=3, **settings)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("keras_encdec.trainers.fitting.add_average", lambda *_: kill())
        train_tiny(tsv, tmp_path / "stopped", updates=2, **settings)
    for updates in (2, 3):  # the first only averages
        keras.utils.set_random_seed(updates)  # as in another process
        train_tiny(tsv, tmp_path / "stopped", resume=True, updates=updates, **settings)
    models = [load_checkpoint(tmp_path / name).model for name in ("whole", "stopped")]
    for mine, its in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(its, mine)


@pytest.mark.usefixtures("eager", "signals_obeyed")
def test_a_signal_with_the_last_update_of_a_round_or_of_the_training_ends_the_round(tsv, tmp_path):
    settings = {"updates": 3, "round_updates": 2}
    train_tiny(tsv, tmp_path / "whole", **settings)
    for update in (2, 3):
        reporter = Interrupting(update, terminate)
        result = train(tiny_config(**settings), tsv, tmp_path / "stopped", resume=True, reporter=reporter)
        assert (result.signal, result.last.updates) == (signal.SIGTERM, update)
    assert_same_training(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.usefixtures("eager", "signals_obeyed")
def test_a_round_continues_with_other_limits(tsv, tmp_path):
    """The first round is always completed; a later one only if the training has not reached its end."""
    stop = Interrupting(4, terminate)
    train(tiny_config(updates=9, round_updates=6), tsv, tmp_path, reporter=stop)
    result, _ = train_tiny(tsv, tmp_path, resume=True, updates=2, round_updates=2)
    assert number_of_updates(tmp_path) == [5] and result.best.updates == 5
    train(tiny_config(updates=9, round_updates=6), tsv, tmp_path, True, Interrupting(7, terminate))
    result, lines = train_tiny(tsv, tmp_path, resume=True, updates=6)
    assert len(result.rounds) == 1 and lines[0].startswith("Nothing to train: the training has already ended. 7 upd")
    train_tiny(tsv, tmp_path, resume=True, updates=9, round_updates=3, learning_rate=0.01)
    assert number_of_updates(tmp_path) == [5, 8, 9]
    assert [past["learning_rate"] for past in rounds(tmp_path)] == pytest.approx([0.02, 0.01, 0.01])


@pytest.mark.usefixtures("eager")
def test_the_weights_of_another_run_are_refused(training_files, tmp_path):
    data = TrainingData(tsv=training_files / "tsv")
    for name in ("one", "other"):
        train_tiny(data, tmp_path / name, updates=1, round_updates=1, seed=len(name))
    right, other = (tmp_path / name / "best.keras" for name in ("one", "other"))
    kept = right.read_bytes()
    ModelDirectory.load(right.parent)
    shutil.copy(other, right)
    with pytest.raises(InputError, match=f"{right}: found a file that has changed since the model was trained"):
        ModelDirectory.load(right.parent)
    right.write_bytes(kept)
    train_tiny(data, right.parent, updates=2, round_updates=1, seed=3, resume=True)
    ModelDirectory.load(right.parent)


@pytest.mark.parametrize(
    "values, expected",
    [([3.0, 4.0], False), ([3.0, 4.0, 5.0], True), ([3.0, 4.0, 2.0], False), ([], False)],
)
def test_patience_counts_rounds_and_not_their_average(tmp_path, values, expected):
    budget = Budget(TrainingConfig("recurrent", patience=2), updates_per_epoch=1, progress=Progress())
    for monitor, best in ((PERPLEXITY, 1.0), (HELD_OUT_BLEU, 99.0)):
        sign = -1 if monitor.higher_is_better else 1
        rounds = [
            {monitor.name: sign * value, "val_perplexity": 7.0, "updates": 10 * number}
            for number, value in enumerate(values, start=1)
        ]
        for more in ([], [{monitor.name: best, "averaged_rounds": 2, "updates": 99}] * bool(rounds)):
            checkpoints = Checkpoints(tmp_path, budget, 4, monitor, rounds + more, patience=2)
            assert checkpoints.out_of_patience == expected
            checkpoints = Checkpoints(tmp_path, budget, 4, monitor, rounds + more, patience_updates=20)
            assert checkpoints.out_of_patience == expected


def test_the_best_model_has_the_highest_bleu_and_not_the_lowest_perplexity(tmp_path):
    model = toy(layers=1, cell="rnn")
    model.compile("sgd")
    budget = Budget(TrainingConfig("recurrent", epochs=9), updates_per_epoch=9, progress=Progress())
    checkpoints = Checkpoints(tmp_path, budget, 4, HELD_OUT_BLEU)
    checkpoints.set_model(model)
    for perplexity, bleu, best in ((5.0, 10.0, True), (4.0, 12.5, True), (3.0, 12.0, False), (6.0, 12.5, False)):
        stirred(model, seed=int(perplexity))
        budget.updates_done += 10
        checkpoints.on_epoch_end(1, {"val_perplexity": perplexity, "val_bleu": bleu})
        same = [
            np.array_equal(one, other)
            for one, other in zip(load_model(tmp_path / "best.keras").get_weights(), model.get_weights(), strict=True)
        ]
        assert all(same) == best
    assert checkpoints.best["updates"] == 20
    checkpoints.add_average(model, model.get_weights(), 2, {"perplexity": 9.0, "bleu": 13.0})
    assert checkpoints.best["averaged_rounds"] == 2
    with pytest.raises(InputError, match="found the val_perplexity nan after 40 updates, expected a finite number"):
        checkpoints.on_epoch_end(1, {"val_perplexity": float("nan")})
