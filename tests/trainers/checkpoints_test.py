"""What a training keeps of itself, on each backend."""

import shutil

import keras
import numpy as np
import pytest
from recurrent_toys import SOURCE, TARGET, toy

from keras_encdec.backend.random import set_generator_state
from keras_encdec.trainers.budget import Budget
from keras_encdec.trainers.checkpoints import Checkpoints, load_checkpoint
from keras_encdec.trainers.learning_rate_schedules import learning_rate_schedule


def fit(model, folder, before=()):
    """A round of two updates."""
    first = before[-1]["updates"] if before else 0
    budget = Budget(0.1, learning_rate_schedule("constant"), updates_per_epoch=1, first_update=first)
    checkpoints = Checkpoints(folder, budget, len(SOURCE), "perplexity", before)
    data = {"source": np.tile(SOURCE, (2, 1)), "target": np.tile(TARGET, (2, 1))}
    model.fit(data, batch_size=len(SOURCE), shuffle=False, verbose=0, callbacks=[budget, checkpoints])
    return checkpoints.rounds


def test_dropout_goes_on_where_it_was(tmp_path):
    model = toy(layers=1, units=2, dropout=0.5)
    model.compile(keras.optimizers.SGD(0.1), jit_compile=keras.backend.backend() == "jax")
    (tmp_path / "whole").mkdir()
    rounds = fit(model, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    fit(model, tmp_path / "whole", rounds)
    keras.utils.set_random_seed(7)  # of another process
    again, rounds, generator = load_checkpoint(tmp_path / "killed")
    set_generator_state(generator)
    fit(again, tmp_path / "killed", rounds)
    for one, other in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    "perplexities, expected",
    [([3.0, 4.0], False), ([3.0, 4.0, 5.0], True), ([3.0, 4.0, 2.0], False), ([], False)],
)
def test_patience_is_told_from_the_rounds_whatever_their_average(tmp_path, perplexities, expected):
    rounds = [{"perplexity": value} for value in perplexities]
    budget = Budget(0.1, learning_rate_schedule("constant"), updates_per_epoch=1)
    for more in ([], [{"perplexity": 1.0, "averaged_rounds": 2}] * bool(rounds)):
        checkpoints = Checkpoints(tmp_path, budget, 4, "perplexity", rounds + more, patience=2)
        assert checkpoints.out_of_patience == expected
