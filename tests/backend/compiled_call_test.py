import concurrent.futures
import gc
import importlib
import logging
import threading
import time
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from keras_encdec.backend.compiled_call import call_threads, compiled_call
from keras_encdec.backend.devices import on_cpu
from keras_encdec.backend.loops import counted_loop
from keras_encdec.runtime.workers import threads


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


def used_processors(_=None):
    """The processors that PyTorch uses in a thread; other backends share them among all threads."""
    if keras.backend.backend() != "torch":
        return 1
    return importlib.import_module("torch").get_num_threads()


def test_threads_share_the_processors():
    before = used_processors()
    number, begin = call_threads()
    with threads(number, begin) as executor:
        used = list(executor.map(used_processors, range(number)))
    if keras.backend.backend() == "torch" and on_cpu():
        assert number == min(before, 4) and sum(used) <= before
    with concurrent.futures.ThreadPoolExecutor(1) as another:
        assert another.submit(used_processors).result() == used_processors() == before


class Product(keras.layers.Layer):
    """Remembers how precisely JAX and TensorFlow would multiply on a GPU when it is traced."""

    def __init__(self):
        super().__init__()
        self.precisions, self.built = [], True

    def call(self, x):
        self.precisions.append(precision())
        return ops.matmul(x, x)


def precision():
    if keras.backend.backend() == "jax":
        return importlib.import_module("jax").config.jax_default_matmul_precision
    config = importlib.import_module("tensorflow").config.experimental
    return "tensorfloat32" if config.tensor_float_32_execution_enabled() else "highest"


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Makes calls believe that they run on a GPU."""
    monkeypatch.setattr("keras_encdec.backend.compiled_call.on_cpu", lambda: False)
    yield
    if keras.backend.backend() == "tensorflow":
        importlib.import_module("tensorflow").config.experimental.enable_tensor_float_32_execution(True)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch multiplies float32 precisely by default")
def test_a_gpu_does_not_round_float32(on_a_gpu):
    layer = Product()
    np.testing.assert_allclose(compiled_call(layer)(np.full((2, 2), 1.5, "float32")), 4.5)
    assert layer.precisions == ["highest"]


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="an option of JAX")
def test_the_user_may_choose_the_precision_of_jax(on_a_gpu):
    layer, jax = Product(), importlib.import_module("jax")
    with jax.default_matmul_precision("tensorfloat32"):
        compiled_call(layer)(np.ones((2, 2), "float32"))
    assert layer.precisions == ["tensorfloat32"]


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


def test_a_loop_keeps_no_tensors_of_earlier_steps_in_reference_cycles():
    layer = Nested()
    alive = []

    def body(_, x):
        alive.append(sum(tensor() is not None for tensor in layer.computed))
        return [layer(x) / 2]

    gc.disable()
    try:
        [after] = counted_loop(body, 3, ops.ones((3, 2)))
        np.testing.assert_array_equal(ops.convert_to_numpy(after), 1)
        assert not any(alive)
    finally:
        gc.enable()
