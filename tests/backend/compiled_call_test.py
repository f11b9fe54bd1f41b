import concurrent.futures
import gc
import logging
import threading
import time
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from keras_encdec.backend.compiled_call import compiled_call


class Doubled(keras.layers.Layer):
    """Counts how often it is traced, or run where nothing is traced."""

    def __init__(self, seconds=0.0):
        super().__init__()
        self.shapes, self.seconds, self.built = [], seconds, True

    def call(self, x):
        self.shapes.append(tuple(x.shape))
        time.sleep(self.seconds)
        return x * 2


def test_many_shapes_give_no_warning(caplog):
    call = compiled_call(Doubled())
    with caplog.at_level(logging.WARNING):
        for rows in range(1, 9):
            np.testing.assert_array_equal(ops.convert_to_numpy(call(np.ones((rows, 2), "float32"))), 2)
    assert caplog.messages == []


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="nothing is compiled")
def test_arrays_and_tensors_share_what_is_compiled():
    layer = Doubled()
    call = compiled_call(layer)
    np.testing.assert_array_equal(ops.convert_to_numpy(call(call(np.ones((3, 2), "int32")))), 4)
    assert layer.shapes == [(3, 2)]


def test_threads_that_meet_a_shape_first_compile_it_once():
    layer, together = Doubled(seconds=0.1), threading.Barrier(4, timeout=60)
    call = compiled_call(layer)

    def called(_):
        together.wait()
        return ops.convert_to_numpy(call(np.ones((3, 2), "float32"))).sum()

    with concurrent.futures.ThreadPoolExecutor(4) as executor:
        assert list(executor.map(called, range(4))) == [12] * 4
    compiles = keras.backend.backend() != "torch"
    assert len(layer.shapes) == (1 if compiles else 4)


class Nested(keras.layers.Layer):
    """A layer that calls another one with a structure of tensors, as the models do."""

    def __init__(self):
        super().__init__()
        self.inner, self.computed, self.built = keras.layers.Identity(), [], True

    def call(self, x):
        halves = x / 2
        if hasattr(halves, "untyped_storage"):  # a tensor of PyTorch, not what stands for one while it is traced
            self.computed.append(weakref.ref(halves))
        return self.inner({"halves": halves})["halves"] * 4


def test_a_call_leaves_no_tensors_in_reference_cycles():
    layer = Nested()
    call = compiled_call(layer)
    gc.disable()
    try:
        np.testing.assert_array_equal(ops.convert_to_numpy(call(np.ones((3, 2), "float32"))), 2)
        assert [tensor() for tensor in layer.computed] == [None] * (keras.backend.backend() == "torch")
    finally:
        gc.enable()
