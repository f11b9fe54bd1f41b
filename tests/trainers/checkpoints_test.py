"""What a training keeps of itself, on each backend."""

import shutil

import keras
import numpy as np
import pytest
from recurrent_toys import stirred, toy
from tiny_trainings import train_tiny

from keras_encdec.errors import InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.trainers import TrainingData
from keras_encdec.trainers.budget import Budget, learning_rate_schedule
from keras_encdec.trainers.checkpoints import HELD_OUT_BLEU, PERPLEXITY, Checkpoints


@pytest.mark.usefixtures("eager")
def test_dropout_of_a_resumed_training_continues_the_random_numbers(training_files, tmp_path):
    data = TrainingData(tsv=training_files / "tsv")
    settings = {"architecture": "recurrent", "model": {"cell": "rnn", "layers": 1, "dropout": 0.5}, "round_updates": 2}
    train_tiny(data, tmp_path / "whole", updates=4, **settings)
    train_tiny(data, tmp_path / "stopped", updates=2, **settings)
    keras.utils.set_random_seed(7)  # of another process
    train_tiny(data, tmp_path / "stopped", resume=True, updates=4, **settings)
    weights = [load_model(tmp_path / name / "last.keras").get_weights() for name in ("whole", "stopped")]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.usefixtures("eager")
def test_the_weights_of_another_training_are_refused(training_files, tmp_path):
    data = TrainingData(tsv=training_files / "tsv")
    for name in ("one", "other"):
        train_tiny(data, tmp_path / name, updates=2, round_updates=1, seed=len(name))
    right, other = (tmp_path / name / "best.keras" for name in ("one", "other"))
    kept = right.read_bytes()
    ModelDirectory.load(right.parent)
    shutil.copy(other, right)
    with pytest.raises(InputError, match=f"{right}: found it changed since the model was trained"):
        ModelDirectory.load(right.parent)
    right.write_bytes(kept)
    train_tiny(data, right.parent, updates=4, round_updates=1, seed=3, resume=True)
    ModelDirectory.load(right.parent)


@pytest.mark.parametrize(
    "values, expected",
    [([3.0, 4.0], False), ([3.0, 4.0, 5.0], True), ([3.0, 4.0, 2.0], False), ([], False)],
)
def test_patience_counts_rounds_and_not_their_average(tmp_path, values, expected):
    budget = Budget(0.1, learning_rate_schedule("constant"), updates_per_epoch=1)
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
    budget = Budget(1.0, learning_rate_schedule("constant"), updates_per_epoch=9)
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
