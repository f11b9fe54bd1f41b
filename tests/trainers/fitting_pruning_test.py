"""Training runs that begin with a pruned model, or prune gradually."""

import signal
import types

import keras
import pytest
from tiny_trainings import number_of_updates, tiny_config, train_tiny

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.model_directory import ModelDirectory, load_model
from keras_encdec.pruning import prune_model
from keras_encdec.pruning.pruning_masks import pruned_share
from keras_encdec.sparse_weights import is_sparse
from keras_encdec.trainers import TrainingData, TrainingReporter, budget, train
from keras_encdec.trainers.fitting import cubic_share

pytestmark = pytest.mark.usefixtures("eager")


@pytest.fixture(scope="module")
def data(training_files):
    return TrainingData(tsv=str(training_files / "tsv"), held_out_fraction=0.1)


@pytest.fixture(scope="module")
def dense(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "dense"
    train_tiny(data, path, updates=1)
    return path


@pytest.fixture(scope="module")
def pruned(dense):
    prune_model(dense, dense.parent / "pruned", share=0.6)
    return dense.parent / "pruned"


def weights(path):
    return load_model(path).get_weights()


def test_a_pruned_model_is_trained_further_with_its_zeros(data, pruned, tmp_path):
    keep = {"initial_model": str(pruned), "keep_pruned": True, "average_rounds": 2}
    result, _ = train_tiny(data, tmp_path / "kept", updates=4, round_updates=2, **keep)
    assert [each.pruned_share for each in result.rounds] == [pytest.approx(0.6, abs=0.01)] * 3
    assert result.rounds[-1].averaged_rounds == 2
    assert ModelDirectory.load(tmp_path / "kept").target_vocabulary.words == (
        ModelDirectory.load(pruned).target_vocabulary.words
    )
    before = weights(pruned)
    for name in ("best.keras", "last.keras"):
        after = weights(tmp_path / "kept" / name)
        assert any((a != b).any() for a, b in zip(before, after, strict=True))
        assert not any(b[1:][a[1:] == 0].any() for a, b in zip(before, after, strict=True) if a.ndim > 1)
    train_tiny(data, tmp_path / "all", updates=1, initial_model=str(pruned))
    assert pruned_share(load_model(tmp_path / "all" / "best.keras")) < 0.3 and not is_sparse(
        tmp_path / "all" / "best.keras"
    )


def test_gradual_pruning_ends_at_its_share_and_keeps_a_model_of_it(data, tmp_path):
    result, _ = train_tiny(data, tmp_path / "m", updates=4, round_updates=1, gradual_pruning=0.8)
    shares = [each.pruned_share for each in result.rounds]
    assert shares == sorted(shares) and shares[-1] == pytest.approx(0.8, abs=0.01)
    # After the first of 4 updates, a third of the pruning is done, which has 100 steps.
    assert shares[0] == pytest.approx(cubic_share(0.33, 0, 0.8), abs=0.01)
    assert result.best.pruned_share == shares[-1]
    assert pruned_share(ModelDirectory.load(tmp_path / "m").model) == pytest.approx(0.8, abs=0.01)


class Doing(TrainingReporter):
    """Calls one function after each update, and another after each validation."""

    def __init__(self, after_update, after_validation=lambda: None):
        super().__init__(lambda line: None)
        self._after_update, self._after_validation = after_update, after_validation

    def callbacks(self, budget, updates_per_epoch):
        doing = keras.callbacks.Callback()
        doing.on_train_batch_end = lambda batch, logs: self._after_update(budget.updates_done)
        doing.on_test_end = lambda logs: self._after_validation()
        return [doing]


@pytest.mark.usefixtures("signals_obeyed")
@pytest.mark.parametrize("updates", [4, 2])
def test_a_run_resumed_with_an_earlier_end_ends_at_the_full_share(data, tmp_path, updates):
    def stop(done):
        if done == 3:
            signal.raise_signal(signal.SIGTERM)

    settings = {"round_updates": 2, "gradual_pruning": 0.8}
    stopped = train(tiny_config(updates=60, **settings), data, tmp_path / "m", reporter=Doing(stop))
    assert stopped.last.pruned_share < 0.3
    result, _ = train_tiny(data, tmp_path / "m", resume=True, updates=updates, **settings)
    assert result.best.pruned_share == result.last.pruned_share == pytest.approx(0.8, abs=0.01)
    assert number_of_updates(tmp_path / "m") == [2, 4]
    assert pruned_share(ModelDirectory.load(tmp_path / "m").model) == pytest.approx(0.8, abs=0.01)
    _, lines = train_tiny(data, tmp_path / "m", resume=True, updates=updates, **settings)
    assert lines[0].startswith("Nothing to train")


def test_a_run_whose_last_validation_takes_long_ends_at_the_full_share(data, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(budget, "time", types.SimpleNamespace(monotonic=lambda: now[0]))

    def wait(seconds):
        now[0] += seconds

    reporter = Doing(lambda done: wait(6), lambda: wait(60))
    config = tiny_config(minutes=1, round_updates=1, gradual_pruning=0.8, average_rounds=2)
    result = train(config, data, tmp_path / "m", reporter=reporter)
    assert [each.updates for each in result.rounds] == [1, 2, 2]
    assert [each.pruned_share for each in result.rounds] == pytest.approx([0, 0.8, 0.8], abs=0.01)
    assert pruned_share(ModelDirectory.load(tmp_path / "m").model) == pytest.approx(0.8, abs=0.01)


def test_a_run_out_of_patience_says_that_it_has_pruned_less(data, tmp_path):
    settings = {"round_updates": 1, "gradual_pruning": 0.8, "learning_rate": 0}
    _, lines = train_tiny(data, tmp_path / "m", updates=10_000, patience=2, **settings)
    assert number_of_updates(tmp_path / "m") == [1, 2, 3]
    assert lines[-1].startswith("warning: 0.0% of the weights are pruned instead of 80.0%: patience ended the training")
    result, lines = train_tiny(data, tmp_path / "m", resume=True, updates=4, patience=9, **settings)
    assert result.best.pruned_share == pytest.approx(0.8, abs=0.01) and not any("are pruned" in line for line in lines)


def test_contradictory_pruning_settings_are_refused(data, dense, pruned, tmp_path):
    def error(kind, **settings):
        with pytest.raises(kind) as caught:
            train_tiny(data, tmp_path / "m", updates=10, **settings)
        assert not (tmp_path / "m" / "best.keras").exists()
        return str(caught.value)

    assert "found keep_pruned without initial_model" in error(ConfigurationError, keep_pruned=True)
    found = error(InputError, initial_model=str(dense), keep_pruned=True)
    assert found.startswith(f"{dense}: found no weight that is zero, expected a pruned model with --keep_pruned")
    found = error(ConfigurationError, initial_model=str(pruned), model={"units": 9})
    assert found == "found units=9, expected units=8 as in the model of initial_model"
    found = error(ConfigurationError, initial_model=str(pruned), architecture="recurrent")
    assert found == "found architecture=recurrent, expected architecture=encdec as in the model of initial_model"
    assert "found no such directory" in error(InputError, initial_model=str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="found gradual_pruning, expected updates, epochs or minutes"):
        tiny_config(gradual_pruning=0.5, patience=1)


def test_a_model_with_a_larger_pruned_share_is_warned_of(data, pruned, tmp_path):
    settings = {"initial_model": str(pruned), "gradual_pruning": 0.5}
    with pytest.warns(EncdecWarning, match=r"found a model with 60.\d% of its weights pruned, more than 50.0%"):
        result, _ = train_tiny(data, tmp_path / "m", updates=1, **settings)
    assert result.rounds[-1].pruned_share == pytest.approx(0.6, abs=0.01)
