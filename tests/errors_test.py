"""The errors that users see."""

import pickle

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError


@pytest.mark.parametrize(
    "error",
    [
        InputError("found 3 scores", "expected 4", "repair the line", "table.gz", 7),
        ConfigurationError("found {units}=%r, expected %s", "5 %", 1),
    ],
)
def test_an_error_of_another_process_is_the_same(error):
    raised = pickle.loads(pickle.dumps(error))
    assert (type(raised), str(raised), vars(raised)) == (type(error), str(error), vars(error))
