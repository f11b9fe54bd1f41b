"""A training function compiled once for each shape, for TensorFlow."""

import keras


def train_by_shape(model, jit_compile=True):
    """Makes `model.fit` compile its step for each shape of batch, with every length known.

    Keras traces one step for all batches of a `tf.data` pipeline, with the number of steps unknown, and
    XLA cannot differentiate a loop of unknown length. Here the batch is taken first and the step traced
    for its shape, so that loops over phrases are written out and fused. The batches must come in few
    shapes. On one device, with one step an execution.

    Args:
        model: compiled `keras.Model` under the TensorFlow backend.
        jit_compile: bool. Whether with XLA. Defaults to `True`.
    """
    import tensorflow as tf

    functions = {}

    def train(iterator):
        batch = next(iterator)
        shapes = tuple(tuple(part.shape) for part in keras.tree.flatten(batch))
        if shapes not in functions:
            functions[shapes] = tf.function(model.train_step, jit_compile=jit_compile, autograph=False)
        return functions[shapes](batch)

    model.make_train_function()
    model.train_function = train
