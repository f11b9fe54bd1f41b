import pytest
from commands import Command


@pytest.fixture(scope="module")
def train():
    command = Command("keras_encdec.trainers.train", "encdec-train")
    yield command
    command.close()
