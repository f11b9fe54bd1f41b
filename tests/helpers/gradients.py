"""Gradients of a model's score on whichever backend the tests run."""

import contextlib

import keras
import numpy as np


def double_precision():
    """A context in which float64 is float64: JAX narrows it to float32 unless told not to."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.enable_x64(True)
    return contextlib.nullcontext()


def score_gradients(model, source, target):
    """d sum(score) / d weights: dict from the variable's path to an array."""
    backend = keras.backend.backend()
    variables = model.trainable_variables
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model.score(source, target))
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(total, [v.value for v in variables])]
    elif backend == "jax":
        import jax

        def total(values):
            inputs = {"source": np.asarray(source), "target": np.asarray(target)}
            return model.stateless_call(values, model.non_trainable_variables, inputs)[0].sum()

        gradients = jax.grad(total)([v.value for v in variables])
    else:
        import torch

        model.score(source, target).sum().backward()
        gradients = [v.value.grad for v in variables]
        assert isinstance(gradients[0], torch.Tensor)
    return {v.path: keras.ops.convert_to_numpy(g) for v, g in zip(variables, gradients, strict=True)}
