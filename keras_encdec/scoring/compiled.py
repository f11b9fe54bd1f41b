"""A layer's call, compiled, without gradients, on whichever backend runs."""

import threading

import keras


def compiled_call(layer):
    """Compiles a built layer for repeated calls on arrays of few shapes, by any number of threads.

    TensorFlow, with XLA, and JAX compile each shape once; PyTorch runs the layer step by step.

    Args:
        layer: built `keras.layers.Layer` whose call takes tensors and no training argument.

    Returns:
        callable: positional arrays to the layer's output, tensors of the backend.
    """
    compiler, calls, compiling = _compiler(layer), {}, threading.Lock()

    def call(*inputs):
        shapes = tuple(tuple(x.shape) for x in inputs)
        if shapes in calls:
            return calls[shapes](*inputs)
        with compiling:  # once, not by two threads
            compiled = calls.get(shapes) or compiler(inputs)
            outputs = compiled(*inputs)
            calls[shapes] = compiled
            return outputs

    return call


def _compiler(layer):
    """A function from inputs to what is called with such, and compiled at the latest when it first is."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        def compiler(inputs):
            # A concrete function a shape: any other warns of many shapes, and one for all gives up on them.
            function = tf.function(lambda *tensors: layer(*tensors), autograph=False, jit_compile=True)
            concrete = function.get_concrete_function(*map(tf.convert_to_tensor, inputs))
            return lambda *arrays: concrete(*map(tf.convert_to_tensor, arrays))

        return compiler
    if backend == "jax":
        import jax

        @jax.jit
        def stateless(trainable, non_trainable, *inputs):
            return layer.stateless_call(trainable, non_trainable, *inputs)[0]

        def call(*inputs):
            # The weights are arguments: as constants they would be compiled in, once a shape.
            weights = [[v.value for v in vs] for vs in (layer.trainable_variables, layer.non_trainable_variables)]
            return stateless(*weights, *inputs)

        return lambda inputs: call
    import torch

    from keras_encdec.scoring.onednn_products import onednn_products

    def call(*inputs):
        with torch.inference_mode(), onednn_products():
            return layer(*inputs)

    return lambda inputs: call


def xla_on_cpu():
    """Whether compiled calls are compiled by XLA, for a CPU."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        return jax.default_backend() == "cpu"
    if backend == "tensorflow":
        import tensorflow as tf

        return not tf.config.list_logical_devices("GPU")
    return False
