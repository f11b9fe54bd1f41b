"""Copies of variables in another dtype, which are kept up to date."""

import threading
import weakref
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_encdec.backend.devices import backend_name


class VariableCopies:
    """Keeps copies of variables up to date.

    Args:
        variables: list of keras.Variable.
        copies: list of keras.Variable of the same shapes, which may have other dtypes. They get the values at once.
    """

    def __init__(self, variables: Sequence[keras.Variable], copies: Sequence[keras.Variable]) -> None:
        self._pairs = list(zip(variables, copies, strict=True))
        self._has_changed = [lambda: True for _ in self._pairs]
        self._update_all = _tensorflow_update(self._pairs) if backend_name() == "tensorflow" else None
        self._lock = threading.Lock()
        self._update_changed()

    def update(self) -> None:
        """Copies the values that may have changed; several threads may call it.

        Under JAX and PyTorch, a copy whose variable has not changed is left alone, so that this costs nothing, and
        8-bit weights are not rounded again. TensorFlow does not tell what has changed, so all values are copied, in one
        call.
        """
        with self._lock:
            if self._update_all is None:
                self._update_changed()
            else:
                self._update_all()

    def _update_changed(self) -> None:
        for index, (variable, copy) in enumerate(self._pairs):
            if self._has_changed[index]():
                has_changed = _change_since_now(variable)
                copy.assign(ops.cast(variable, copy.dtype))
                self._has_changed[index] = has_changed


def _tensorflow_update(pairs: Sequence[tuple[keras.Variable, keras.Variable]]) -> Callable[[], object]:
    import tensorflow as tf

    @tf.function(autograph=False)
    def update() -> None:
        for variable, copy in pairs:
            copy.value.assign(tf.cast(variable.value, copy.dtype))

    return update


def _change_since_now(variable: keras.Variable) -> Callable[[], bool]:
    """Returns a function that says whether a variable may have changed since this call.

    Under JAX each value is a new array, and PyTorch counts the changes of a tensor.
    """
    if backend_name() == "jax":
        array = weakref.ref(variable.value)  # keeps no old value alive
        return lambda: array() is not variable.value
    if backend_name() == "torch":
        state = _torch_state(variable)
        return lambda: _torch_state(variable) != state
    return lambda: True


def _torch_state(variable: keras.Variable) -> tuple[int, int]:
    tensor = variable.value
    # PyTorch does not count the changes of a tensor that was made in its inference mode, which cannot be trained.
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
