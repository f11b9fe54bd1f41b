"""A layer's call, compiled, without gradients, on whichever backend runs."""

import collections
import contextlib
import gc
import platform
import threading
from collections.abc import Callable, Hashable

import keras
import torch
from torch.overrides import TorchFunctionMode

from keras_encdec.backend.devices import name
from keras_encdec.backend.types import Structure


def compiled_call(layer: keras.layers.Layer) -> Callable[..., Structure]:
    """Compiles a built layer for repeated calls on arrays of few shapes, by any number of threads.

    TensorFlow, with XLA, and JAX compile each combination of shapes once; PyTorch runs the layer step by step.
    No gradients are recorded.

    Args:
        layer: built `keras.layers.Layer` whose call takes structures of tensors (dicts, lists, tuples, nested) by
            position, and no training argument.

    Returns:
        callable: structures of arrays, by position, to the layer's output, tensors of the backend.
    """
    compiler, calls, compiling = _COMPILERS[name()](layer), {}, threading.Lock()

    def call(*inputs):
        leaves = keras.tree.flatten(inputs)
        # Structures are told apart by what they are called with: a layer has one for its shapes.
        shapes = tuple((tuple(leaf.shape), keras.backend.standardize_dtype(leaf.dtype)) for leaf in leaves)
        if shapes in calls:
            return calls[shapes](leaves)
        with compiling:  # once, not by two threads
            compiled = calls.get(shapes) or compiler(inputs, leaves)
            outputs = compiled(leaves)
            calls[shapes] = compiled
            return outputs

    return call


def _with_tensorflow(layer):
    import tensorflow as tf

    def compiler(inputs, leaves):
        structure = keras.tree.map_structure(lambda _: 0, inputs)  # numbers where the tensors are: none is kept

        def function(*tensors):
            return layer(*keras.tree.pack_sequence_as(structure, list(tensors)))

        # A concrete function for each shape: any other warns of many shapes, and one for all gives up on them.
        compiled = tf.function(function, autograph=False, jit_compile=True)
        concrete = compiled.get_concrete_function(*map(tf.convert_to_tensor, leaves))
        return lambda leaves: concrete(*map(tf.convert_to_tensor, leaves))

    return compiler


def _with_jax(layer):
    import jax

    @jax.jit
    def stateless(trainable, non_trainable, inputs):
        return layer.stateless_call(trainable, non_trainable, *inputs)[0]

    def compiler(inputs, leaves):
        structure = keras.tree.map_structure(lambda _: 0, inputs)

        def call(leaves):
            # The weights are arguments: as constants they would be compiled in, once for each shape.
            weights = [[v.value for v in vs] for vs in (layer.trainable_variables, layer.non_trainable_variables)]
            return stateless(*weights, keras.tree.pack_sequence_as(structure, leaves))

        return call

    return compiler


def _with_torch(layer):
    import torch

    def compiler(inputs, leaves):
        structure = keras.tree.map_structure(lambda _: 0, inputs)

        def call(leaves):
            with torch.inference_mode(), onednn_matmul():
                outputs = layer(*keras.tree.pack_sequence_as(structure, leaves))
            # PyTorch's tree functions leave cycles that hold the tensors of the call, often many megabytes. Python
            # looks for cycles by the number of objects, and commands have it look rarely: it would find them late.
            gc.collect(0)
            return outputs

        return call

    return compiler


_COMPILERS = {"tensorflow": _with_tensorflow, "jax": _with_jax, "torch": _with_torch}


_PRODUCTS = {torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}


def onednn_matmul() -> contextlib.AbstractContextManager:
    """A context in which products with a float32 matrix, that no gradient is asked of, are oneDNN's.

    PyTorch leaves them to MKL, which takes twice the time on processors that are not Intel's. Where PyTorch
    has no such operation, it does nothing.
    """
    return _OneDNNProducts() if _AVAILABLE else contextlib.nullcontext()


def _available():
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return x86 and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


_AVAILABLE = _available()


class _OneDNNProducts(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in _PRODUCTS and not kwargs and _suit(*args):
            # What torch.compile makes of a linear layer for inference; it takes the matrix transposed.
            return torch.ops.mkldnn._linear_pointwise(args[0], args[1].t(), None, "none", [], "")
        return func(*args, **(kwargs or {}))


def _suit(rows, matrix):
    return (
        isinstance(rows, torch.Tensor)
        and isinstance(matrix, torch.Tensor)
        and rows.dtype == matrix.dtype == torch.float32
        and rows.is_cpu
        and matrix.is_cpu
        and rows.ndim >= 2
        and matrix.ndim == 2
        and rows.numel() > 0
        and matrix.numel() > 0
        and torch.is_inference_mode_enabled()
    )


# Multiplications that take about as long as compiling a step for one more size: a second of a processor of two cores.
COMPILING = 3e10


class BatchReduction:
    """The size that a batch is cut down to when only a part of its rows is needed any more.

    It is halved, again and again: fewer sizes are less to compile. A size is compiled only when the rows that were
    computed in vain without it, since the beginning, have taken about as long as compiling takes. So a few sources wait
    for little compiling, many gain all that the sizes are worth, and it never takes much more than twice the time that
    the best choice would have taken (the ski rental problem). What is decided depends on what was computed before, and
    not on the clock.

    Where nothing is compiled, rows are dropped as soon as they are an eighth. `benchmarks/decoding.py` shows what it is
    worth ("rows computed a token").

    Args:
        multiplications: int. Those that a row takes, roughly.
        minimum: int. Batches of fewer rows take no less time.
    """

    def __init__(self, multiplications: int, minimum: int) -> None:
        self._minimum = minimum
        self._compiles = name() != "torch"
        self._rows_of_compiling = COMPILING / max(1, multiplications)
        self._in_vain: collections.Counter[tuple[Hashable, int]] = collections.Counter()

    def reduced(self, what: Hashable, size: int, needed: int, copies: int = 1) -> int:
        """The size for the next step of a batch.

        Args:
            what: hashable. What is compiled for each size anew.
            size: int. Items of the batch, such as sources.
            needed: int. Items that are needed.
            copies: int. Rows of an item. Defaults to `1`.

        Returns:
            int, at least `needed`; `size` where cutting down is not worth while.
        """
        if not self._compiles:
            return needed if needed <= size * 7 // 8 else size
        sizes = [size]
        while needed <= sizes[-1] // 2 and sizes[-1] // 2 * copies >= self._minimum:
            sizes.append(sizes[-1] // 2)
        smallest = sizes[-1]
        computed = min(each for each in sizes if each == size or self._is_worth_it(what, each))
        self._in_vain[what, smallest] += (computed - smallest) * copies
        return smallest if self._is_worth_it(what, smallest) else computed

    def _is_worth_it(self, what, size):
        return self._in_vain[what, size] >= self._rows_of_compiling
