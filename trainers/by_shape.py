"""A training function compiled once for each shape, for TensorFlow."""

import dataclasses
import time

import keras


@dataclasses.dataclass
class Compilation:
    """What compiling took so far.

    Attributes:
        shapes: int. Shapes of batches.
        seconds: float. Spent on the first step of each, most of it compiling.
    """

    shapes: int = 0
    seconds: float = 0.0


def train_by_shape(model, jit_compile=True):
    """Makes `model.fit` compile its step for each shape of batch, with every length known.

    Keras traces one step for all batches of a `tf.data` pipeline, with the number of steps unknown, and
    XLA cannot differentiate a loop of unknown length. Here the batch is taken first and the step traced
    for its shape, so that loops over phrases are written out and fused. The batches must come in few
    shapes. On one device, with one step an execution.

    Args:
        model: compiled `keras.Model` under the TensorFlow backend.
        jit_compile: bool. Whether the whole step is compiled with XLA, or the optimizer alone, which
            is one pass over the weights then instead of many. Defaults to `True`.

    Returns:
        Compilation, which goes on counting.
    """
    import tensorflow as tf

    functions, compilation = {}, Compilation()
    if not jit_compile:
        _compile_optimizer(model)

    def train(iterator):
        batch = next(iterator)
        shapes = tuple(tuple(part.shape) for part in keras.tree.flatten(batch))
        if shapes in functions:
            return functions[shapes](batch)
        functions[shapes] = tf.function(model.train_step, jit_compile=jit_compile, autograph=False)
        start = time.monotonic()
        logs = functions[shapes](batch)
        compilation.seconds += time.monotonic() - start
        compilation.shapes += 1
        return logs

    model.make_train_function()
    model.train_function = train
    return compilation


def _compile_optimizer(model):
    import tensorflow as tf

    optimizer, variables = model.optimizer, model.trainable_variables
    optimizer.build(variables)
    apply = optimizer.apply_gradients

    @tf.function(jit_compile=True, autograph=False)
    def compiled(gradients):
        apply(zip(gradients, variables, strict=True))

    optimizer.apply_gradients = lambda pairs: compiled([tf.convert_to_tensor(gradient) for gradient, _ in pairs])
