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
    compiled, done, compiling = _compiled(layer), set(), threading.Lock()

    def call(*inputs):
        shapes = tuple(tuple(x.shape) for x in inputs)
        if shapes in done:
            return compiled(*inputs)
        with compiling:  # once, not by two threads
            outputs = compiled(*inputs)
            done.add(shapes)
            return outputs

    return call


def _compiled(layer):
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        functions = {}

        def call(*inputs):
            inputs = [tf.convert_to_tensor(x) for x in inputs]
            shapes = tuple(x.shape for x in inputs)
            # A concrete function a shape: any other warns of many shapes, and one for all gives up on them.
            if shapes not in functions:
                function = tf.function(lambda *tensors: layer(*tensors), autograph=False, jit_compile=True)
                functions[shapes] = function.get_concrete_function(*inputs)
            return functions[shapes](*inputs)

        return call
    if backend == "jax":
        import jax

        @jax.jit
        def stateless(trainable, non_trainable, *inputs):
            return layer.stateless_call(trainable, non_trainable, *inputs)[0]

        def call(*inputs):
            # The weights are arguments: as constants they would be compiled in, once a shape.
            weights = [[v.value for v in vs] for vs in (layer.trainable_variables, layer.non_trainable_variables)]
            return stateless(*weights, *inputs)

        return call
    import torch

    from keras_encdec.scoring.onednn_products import onednn_products

    def call(*inputs):
        with torch.inference_mode(), onednn_products():
            return layer(*inputs)

    return call


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
