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


def in_one_program(function):
    """The function, compiled for JAX, which would otherwise compile each of its operations separately."""
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function)


def score_gradients(model, source, target, **characters):
    """d sum(score) / d weights: dict from the variable's path to an array."""
    backend = keras.backend.backend()
    variables = model.trainable_variables
    inputs = {"source": np.asarray(source), "target": np.asarray(target), **characters}
    if backend == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(inputs))
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(total, [v.value for v in variables])]
    elif backend == "jax":
        import jax

        def total(values):
            return model.stateless_call(values, model.non_trainable_variables, inputs)[0].sum()

        gradients = in_one_program(jax.grad(total))([v.value for v in variables])
    else:
        import torch

        model(inputs).sum().backward()
        gradients = [v.value.grad for v in variables]
        assert isinstance(gradients[0], torch.Tensor)
    return {v.path: keras.ops.convert_to_numpy(g) for v, g in zip(variables, gradients, strict=True)}


def gradients_by(read, model, *ids, **inputs):
    """Returns the gradients in the form in which `read(model)` returns the weights; overwrites the weights."""
    gradients = score_gradients(model, *ids, **inputs)
    for variable in model.trainable_variables:
        variable.assign(gradients[variable.path])
    return read(model)


def assert_finite_differences(gradients, total, weights, elements=6, first_row=lambda name: 0, tolerance=1e-6):
    """Compares random elements of gradients with central differences in float64.

    Args:
        gradients, weights: structures of arrays of the same form.
        total: function of the weights to a number.
        elements: int. Elements of each array to compare.
        first_row: function of an array's name, of a dict, to the first row that is compared.
        tolerance: float.
    """
    weights = keras.tree.map_structure(np.array, weights)
    random, step = np.random.default_rng(1), 1e-6
    pairs = zip(keras.tree.flatten_with_path(gradients), keras.tree.flatten(weights), strict=True)
    for (path, gradient), weight in pairs:
        for _ in range(elements if weight.size else 0):
            lowest = [first_row(path[0]), *[0] * weight.ndim][: weight.ndim]
            place = tuple(map(int, random.integers(lowest, weight.shape)))
            value, totals = weight[place], []
            for moved in (value + step, value - step):
                weight[place] = moved
                totals.append(total(weights))
            weight[place] = value
            difference = (totals[0] - totals[1]) / (2 * step)
            np.testing.assert_allclose(gradient[place], difference, atol=tolerance, rtol=1e-6, err_msg=str(path))


def gradients_of(total, arguments, outputs):
    """The outputs of a function and the gradients of a scalar, in each way in which the backend runs them.

    Args:
        total: function of tensors to a scalar.
        arguments: list of arrays.
        outputs: function of the same tensors to a structure of tensors.

    Yields:
        tuple: the name of the way ("eager", "compiled", ...), the outputs as arrays, and the gradients of the scalar
        with respect to the arguments of floats, a list of arrays.
    """
    backend = keras.backend.backend()
    floats = [i for i, argument in enumerate(arguments) if argument.dtype.kind == "f"]

    def arrays(structure):
        return keras.tree.map_structure(keras.ops.convert_to_numpy, structure)

    if backend == "tensorflow":
        import tensorflow as tf

        def both(*tensors):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                value = total(*tensors)
            return outputs(*tensors), tape.gradient(value, [tensors[i] for i in floats])

        # The first argument is (batch, time, ...).
        shapes = [[None, None, *arguments[0].shape[2:]], *(argument.shape for argument in arguments[1:])]
        unknown = [tf.TensorSpec(shape, a.dtype) for shape, a in zip(shapes, arguments, strict=True)]
        ways = {
            "eager": both,
            "unknown length": tf.function(both, autograph=False, input_signature=unknown),
            "compiled": tf.function(both, autograph=False, jit_compile=True),
        }
        for name, way in ways.items():
            yield (name, *arrays(way(*map(tf.constant, arguments))))
    elif backend == "jax":
        import jax

        def both(*tensors):
            return outputs(*tensors), jax.grad(total, argnums=floats)(*tensors)

        # Not without jit: it traces the same program, and compiles each of its operations separately.
        yield ("compiled", *arrays(jax.jit(both)(*map(jax.numpy.asarray, arguments))))
    else:
        import torch

        device = keras.ops.zeros(()).device
        tensors = [torch.tensor(each, device=device, requires_grad=i in floats) for i, each in enumerate(arguments)]
        total(*tensors).backward()
        yield "eager", arrays(outputs(*tensors)), arrays([tensors[i].grad for i in floats])
