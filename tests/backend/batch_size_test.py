import pytest

from keras_encdec.backend import devices
from keras_encdec.backend.batch_size import reduced_batch_size


@pytest.mark.parametrize(
    "size, needed, minimum", [(64, 33, 4), (64, 32, 4), (64, 3, 4), (8, 1, 4), (5, 5, 1), (7, 6, 1)]
)
def test_a_batch_keeps_what_is_needed_and_is_cut_down_where_that_is_worth_while(size, needed, minimum):
    reduced = reduced_batch_size(size, needed, minimum)
    assert needed <= reduced <= size
    compiled = {(64, 33, 4): 64, (64, 32, 4): 32, (64, 3, 4): 4, (8, 1, 4): 4, (5, 5, 1): 5, (7, 6, 1): 7}
    if devices.name() != "torch":
        assert reduced == compiled[size, needed, minimum]
