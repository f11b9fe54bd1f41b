"""Fixtures that the tests of the analysis share."""

import pytest
from toy_report import write_table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A small phrase table, with frequent and rare phrases."""
    return write_table(tmp_path_factory.mktemp("table") / "table")


@pytest.fixture(scope="module")
def directory(model_dirs):
    """The model directory `forward`, loaded."""
    from keras_encdec.model_directory import ModelDirectory

    return ModelDirectory.load(model_dirs / "forward")
