"""Devices that share a training run: virtual ones of one process, or two processes of PyTorch and of TensorFlow."""

import functools
import shutil

import keras
import numpy as np
import pytest
from shared_training import ALONE, DATA, DEVICES, RANDOM, launch, regularized
from tiny_trainings import rounds, train_tiny, training_files

from keras_encdec.backend.distribution import find_replicas
from keras_encdec.backend.replicas import Replicas, check_batch_size
from keras_encdec.configuration import ConfigurationError
from keras_encdec.model_directory import load_model
from keras_encdec.trainers import TrainingData
from keras_encdec.trainers.resumption import load_checkpoint

BACKEND = keras.backend.backend()
TF_CONFIG = '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}'
__all__ = ["training_files"]  # a fixture


# Which of ALONE each kind of devices trains. Those of TensorFlow, which traces each run, share all but the sums.
TRAINED = {"devices": ["exact", "mean"]}
if BACKEND == "tensorflow":
    TRAINED = {"devices": ["exact"], "workers": ["mean"]}


@pytest.fixture(scope="module")
def shared(training_files, tmp_path_factory):
    """A function that trains with a kind of devices once, and returns the folder of the model directories.

    There is one for each run of `shared_training.py`.
    """

    @functools.cache
    def trained(kind):
        folder = tmp_path_factory.mktemp("shared")
        shutil.copy(training_files / "tsv", folder)
        launch(folder, BACKEND, TRAINED[kind], workers=kind == "workers")
        return folder

    return trained


def weights(folder):
    """The weights of the last checkpoint."""
    return load_model(folder / "last.keras").get_weights()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("kind, name", [(kind, name) for kind, names in TRAINED.items() for name in names])
def test_devices_that_share_batches_learn_what_one_device_learns(shared, tmp_path, kind, name):
    folder = shared(kind)
    data = TrainingData(tsv=folder / "tsv", **DATA)
    with regularized():
        train_tiny(data, tmp_path / "alone", **ALONE[name])
    for mine, its in zip(weights(tmp_path / "alone"), weights(folder / name), strict=True):
        np.testing.assert_allclose(its, mine, atol=2e-6)
    for mine, its in zip(rounds(tmp_path / "alone"), rounds(folder / name), strict=True):
        for value in (mine, its):
            del value["seconds"]
        assert its == pytest.approx(mine, rel=1e-5)


def test_a_stopped_run_on_several_devices_is_continued_exactly(shared):
    whole, stopped = (load_checkpoint(shared("devices") / name) for name in ("whole", "stopped"))
    assert whole.progress.updates == stopped.progress.updates == RANDOM["updates"]
    pairs = zip(
        whole.model.variables + whole.model.optimizer.variables,
        stopped.model.variables + stopped.model.optimizer.variables,
        strict=True,
    )
    for mine, its in pairs:
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (mine, its)), err_msg=mine.path)
    histories = [rounds(shared("devices") / name) for name in ("whole", "stopped")]
    for past in (past for history in histories for past in history):
        del past["seconds"]
    assert histories[0] == histories[1]


def test_dropout_draws_other_numbers_on_each_device(shared):
    """Under JAX the devices share the numbers of one device."""
    states = load_checkpoint(shared("devices") / "whole").progress.generator
    if BACKEND == "torch":
        assert set(states) == {"cpu", "cpu.1"} and (states["cpu"] != states["cpu.1"]).any()
    if BACKEND == "tensorflow":
        from keras_encdec.backend.mirrored import _of_replica

        state = keras.ops.convert_to_tensor([7, 9], "uint32")
        drawn = [_of_replica(state, replica) for replica in range(DEVICES)]
        assert [numbers.numpy().tolist() for numbers in drawn] == [[7, 9], [8, 9]]
        assert _of_replica(drawn[1], 1, -1).numpy().tolist() == [7, 9]


@pytest.mark.parametrize("devices", ["3", "2"])
def test_more_devices_than_there_are_are_refused(devices, monkeypatch):
    if BACKEND == "torch":
        expected = f"found devices={devices} in one process of PyTorch, .* torchrun --nproc_per_node={devices} "
    else:
        expected = f"found 1 device under .*, expected {devices}, the number in devices; give at most 1, or devices=all"
    with pytest.raises(ConfigurationError, match=expected):
        find_replicas(devices)
    assert find_replicas("all").devices == 1, "of the one that there is"


@pytest.mark.parametrize(
    "launcher, variable, value",
    [
        ("torch", "WORLD_SIZE", "2"),
        ("jax", "KERAS_DISTRIBUTION_NUM_PROCESSES", "2"),
        ("tensorflow", "TF_CONFIG", TF_CONFIG),
    ],
)
def test_processes_that_would_train_independently_are_refused(launcher, variable, value, monkeypatch):
    monkeypatch.setenv(variable, value)
    expected = "found devices=1 in one of 2 processes"
    if launcher != BACKEND:
        expected = rf"found 2 processes started for .* with the backend {BACKEND}, expected KERAS_BACKEND={launcher}"
    for devices in ("1",) if launcher == BACKEND else ("1", "2", "all"):
        with pytest.raises(ConfigurationError, match=expected):
            find_replicas(devices)


@pytest.mark.parametrize(
    "task", ["", ', "task": {"type": "worker", "index": 2}', ', "task": {"type": "ps", "index": 0}']
)
def test_a_worker_must_know_its_number(task, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}' + task + "}")
    with pytest.raises(
        ConfigurationError, match=r"found the task \{.*\} in a TF_CONFIG with 2 workers, expected the num"
    ):
        find_replicas("all")


class FakeReplicas(Replicas):
    """Three devices in three processes, each with its own values."""

    devices = processes = 3

    def __init__(self, process):
        self.process = process

    def gather(self, values):
        return np.stack([values + process - self.process for process in range(3)])


def test_each_process_gets_its_rows_and_the_values_of_the_first():
    batch = {"source": np.arange(14).reshape(7, 2), "target": np.arange(1, 15).reshape(7, 2)}
    parts = [FakeReplicas(process).part(batch) for process in range(3)]
    assert [part["target"].tolist() for part in parts] == [
        [[1, 2], [3, 4], [5, 6]],
        [[7, 8], [9, 10], [11, 12]],
        [[13, 14], [0, 0], [0, 0]],
    ]
    assert parts[2]["source"].tolist() == [[12, 13], [0, 1], [0, 1]]
    assert FakeReplicas(2).agree([5.0, 8.0], 0) == ([3.0, 6.0], 0)
    with pytest.raises(ConfigurationError, match="found 64 pairs per update for 3 devices, expected a multiple; chan"):
        check_batch_size(FakeReplicas(0), 64)
