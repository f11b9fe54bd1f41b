"""Fixtures that the tests of training share."""

import pytest
from tiny_trainings import train_tiny
from tiny_trainings import training_files as training_files

from keras_encdec.trainers import TrainingData


@pytest.fixture(scope="session")
def tsv(training_files):
    """The pairs, of which one in a hundred is held out."""
    return TrainingData(tsv=training_files / "tsv")


@pytest.fixture(scope="session")
def trained(training_files, tmp_path_factory):
    """A run on the phrase table, compiled as by default, with TensorBoard: the result and the lines."""
    path = tmp_path_factory.mktemp("trained") / "new" / "model"
    data = TrainingData(phrase_table=training_files / "table.gz")
    return train_tiny(data, path, updates=25, pad_to=(8,), jit_compile="auto", tensorboard=True)
