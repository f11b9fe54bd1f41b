"""A layer's call, compiled, without gradients, on whichever backend runs."""

import gc
import threading
from collections.abc import Callable
from typing import Any

import keras

from keras_encdec.backend.devices import name


def compiled_call(layer: keras.layers.Layer) -> Callable[..., Any]:
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

    from keras_encdec.backend.onednn_matmul import onednn_matmul

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
