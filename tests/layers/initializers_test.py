import re

import numpy as np
import pytest
from layer_checks import check_published_start, numpy

from keras_encdec.layers import (
    GRU,
    ContextGRUCell,
    DeepOutput,
    FactorizedEmbedding,
    GlobalAttention,
    GRUCell,
    LeftSingularVectors,
    LocalPredictiveAttention,
    LSTMCell,
    RNNCell,
)
from keras_encdec.layers.initializers import weights_will_be_loaded


def test_each_block_is_orthogonal_and_drawn_independently():
    matrix = numpy(LeftSingularVectors()((40, 120)))
    blocks = np.split(matrix, 3, axis=1)
    for block in blocks:
        np.testing.assert_allclose(block.T @ block, np.eye(40), atol=1e-4)
    assert abs(blocks[0] - blocks[1]).max() > 0.1
    assert abs(blocks[0].mean()) < 0.02, "no sign is preferred"


def test_a_seed_repeats_the_draw():
    assert np.array_equal(numpy(LeftSingularVectors(5)((6, 12))), numpy(LeftSingularVectors(5)((6, 12))))
    assert not np.array_equal(numpy(LeftSingularVectors(5)((6, 6))), numpy(LeftSingularVectors(6)((6, 6))))


def test_other_shapes_are_refused():
    for shape in ((4, 6), (4,), (4, 4, 4)):
        with pytest.raises(ValueError, match=re.escape(f"found shape {shape}, expected (n, k * n)")):
            LeftSingularVectors()(shape)


@pytest.mark.parametrize(
    "layer, shapes",
    [
        (GRU(50).cell, [(None, 400)]),
        (ContextGRUCell(50), [(None, 400)]),
        (DeepOutput(90, 50, 80), [(None, None, 50), (None, None, 50), (None, 50)]),
        (FactorizedEmbedding(90, 50, 80), [(None, None)]),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_layers_start_as_published(layer, shapes):
    layer.build(*shapes)
    check_published_start(layer.trainable_variables, stddev=0.01)


@pytest.mark.parametrize(
    "layer, shapes",
    [
        (RNNCell(8), [(None, 8)]),
        (LSTMCell(8), [(None, 8)]),
        (GRUCell(8, recurrent_initializer="glorot_uniform"), [(None, 8)]),
        (ContextGRUCell(8), [(None, 8)]),
        (ContextGRUCell(8), [(None, 4)]),
        (DeepOutput(8, 4, 4), [(None, None, 8), (None, None, 4), (None, 8)]),
        (FactorizedEmbedding(9, 8, 8), [(None, None)]),
        (GlobalAttention("concat"), [(None, None, 8), (None, None, 8)]),
        (LocalPredictiveAttention(), [(None, None, 8), (None, None, 8)]),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_the_matrices_of_a_layer_start_with_different_numbers(layer, shapes):
    layer.build(*shapes)
    matrices = [numpy(weight).ravel() for weight in layer.weights if len(weight.shape) == 2]
    assert len(matrices) > 1
    starts = [matrix[np.flatnonzero(matrix)[:8]] for matrix in matrices]  # the first row of an embedding is zero
    for number, start in enumerate(starts):
        for other in starts[:number]:
            # The ratio is constant for the same random numbers on another scale.
            assert np.ptp(start / other) > 0.01


def test_weights_that_a_file_replaces_are_not_computed():
    initializer = LeftSingularVectors(seed=1)
    with weights_will_be_loaded():
        assert not numpy(initializer((3, 6))).any()
    assert numpy(initializer((3, 6))).any()
