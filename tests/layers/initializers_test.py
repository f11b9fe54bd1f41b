import numpy as np
import pytest
from layer_checks import numpy

from keras_encdec.layers import GRU, ContextGRUCell, LeftSingularVectors
from keras_encdec.layers.initializers import weights_will_be_loaded


def test_each_block_is_orthogonal_and_its_own_draw():
    matrix = numpy(LeftSingularVectors()((40, 120)))
    blocks = np.split(matrix, 3, axis=1)
    for block in blocks:
        np.testing.assert_allclose(block.T @ block, np.eye(40), atol=1e-4)
    assert abs(blocks[0] - blocks[1]).max() > 0.1
    assert abs(blocks[0].mean()) < 0.02, "no column is turned to one side"


def test_a_seed_repeats_the_draw():
    assert np.array_equal(numpy(LeftSingularVectors(5)((6, 12))), numpy(LeftSingularVectors(5)((6, 12))))
    assert not np.array_equal(numpy(LeftSingularVectors(5)((6, 6))), numpy(LeftSingularVectors(6)((6, 6))))


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"found shape \(4, 6\), expected \(n, k \* n\)"):
        LeftSingularVectors()((4, 6))


@pytest.mark.parametrize("make", [lambda: GRU(50).cell, lambda: ContextGRUCell(50)])
def test_cells_start_as_published(make):
    cell = make()
    cell.build((None, 400))
    for variable in cell.trainable_variables:
        values = numpy(variable)
        if "bias" in variable.name:
            assert not values.any()
        elif "recurrent" in variable.name:
            np.testing.assert_allclose(values[:, :50].T @ values[:, :50], np.eye(50), atol=1e-4)
        else:
            assert abs(values.std() - 0.01) < 0.001 and abs(values.mean()) < 0.001


def test_weights_that_a_file_replaces_are_not_computed():
    initializer = LeftSingularVectors(seed=1)
    with weights_will_be_loaded():
        assert not numpy(initializer((3, 6))).any()
    assert numpy(initializer((3, 6))).any()
