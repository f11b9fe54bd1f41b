"""Checks that every layer passes, on whichever backend the tests run."""

import atexit
import functools
import json
import subprocess
import sys

import keras
import numpy as np
from gradients import in_one_program

# Answers requests, a line each, until its input ends.
LOAD_AND_PREDICT = """
import importlib, json, sys, traceback
import numpy as np
from keras_encdec.backend.startup import lean_imports
with lean_imports():
    import keras
for line in sys.stdin:
    try:
        request = json.loads(line)
        for module in request["modules"]:
            importlib.import_module(module)
        model = keras.saving.load_model(request["model"])
        inputs = np.load(request["inputs"])
        np.save(request["outputs"], model.predict([inputs[name] for name in sorted(inputs.files)], verbose=0))
        print("done", flush=True)
    except Exception:
        traceback.print_exc()
        print("failed", flush=True)
"""


def numpy(tensor):
    return keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32"))


def check_published_start(variables, stddev):
    """Checks that biases are 0, recurrent matrices begin with an orthogonal one, and others are drawn around 0."""
    for variable in variables:
        values = numpy(variable)
        if "bias" in variable.name:
            assert not values.any()
        elif "recurrent" in variable.name:
            units = len(values)
            np.testing.assert_allclose(values[:, :units].T @ values[:, :units], np.eye(units), atol=1e-4)
        else:
            assert abs(values.std() - stddev) < stddev / 10, variable.path
            assert abs(values.mean()) < 5 * stddev / values.size**0.5, variable.path


def check_layer(cls, config, inputs, output_shape, weights, folder, differentiable=True):
    """Checks that a layer keeps Keras's contract.

    Args:
        cls: the layer class.
        config: dict of constructor arguments.
        inputs: list of arrays, the call's positional arguments.
        output_shape: tuple, batch included.
        weights: int. Number of trainable weight tensors expected.
        folder: path a model may be saved in.
        differentiable: bool. Whether the inputs are floats that a layer below can learn.
    """
    layer = cls(**config)
    assert {name: getattr(layer, name) for name in config} == config, "arguments keep their names as attributes"
    again = cls.from_config(layer.get_config())
    assert again.get_config() == layer.get_config(), "config round-trips"

    symbolic = [keras.Input(batch_shape=(None, *x.shape[1:]), dtype=str(x.dtype)) for x in inputs]
    outputs = layer(*symbolic)
    assert tuple(outputs.shape) == (None, *output_shape[1:]), "symbolic shape"
    assert len(layer.trainable_variables) == weights, "number of weights"

    eager = numpy(in_one_program(layer)(*inputs))
    assert eager.shape == output_shape, "eager shape"
    model = keras.Model(symbolic, outputs)
    np.testing.assert_allclose(model.predict(inputs, verbose=0), eager, atol=1e-5, err_msg="compiled is eager")
    check_saved_in_a_new_process(model, inputs, eager, folder)

    learned = symbolic
    if differentiable:
        learned = [keras.layers.Dense(x.shape[-1])(s) for s, x in zip(symbolic, inputs, strict=True)]
    model = keras.Model(symbolic, keras.layers.Dense(1)(cls(**config)(*learned)))
    model.compile(keras.optimizers.SGD(0.01), "mse")
    wanted = np.ones((*output_shape[:-1], 1), "float32")
    before = model.evaluate(inputs, wanted, verbose=0)
    model.fit(inputs, wanted, epochs=5, verbose=0)
    assert model.evaluate(inputs, wanted, verbose=0) < before, "training helps"

    for policy in ("mixed_bfloat16", "bfloat16"):
        low = cls(**config, dtype=policy)
        low(*symbolic)  # builds it
        values = in_one_program(low)(*inputs)
        assert keras.backend.standardize_dtype(values.dtype) == "bfloat16", policy
        assert numpy(values).shape == output_shape and np.isfinite(numpy(values)).all(), policy


def check_saved_in_a_new_process(model, inputs, expected, folder, modules=("keras_encdec.layers",)):
    """Saves a model, loads it where nothing of this process is left, and compares what it predicts.

    Only with TensorFlow: files are the same with every backend. The other process stays for the checks that follow,
    because starting it takes longer than they do.

    Args:
        model: built `keras.Model`.
        inputs: list of arrays.
        expected: array.
        folder: path the model is saved in.
        modules: modules that the other process imports first.
    """
    if keras.backend.backend() != "tensorflow":
        return
    model.save(folder / "model.keras")
    np.savez(folder / "inputs.npz", **{f"{i}": x for i, x in enumerate(inputs)})
    names = {"model": "model.keras", "inputs": "inputs.npz", "outputs": "outputs.npy"}
    process = _loading_process()
    request = {"modules": list(modules), **{key: str(folder / name) for key, name in names.items()}}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    # TensorFlow may write other lines.
    answer = next((line.strip() for line in process.stdout if line.strip() in ("done", "failed")), "ended")
    assert answer == "done", "the other process's error stands in the captured stderr"
    np.testing.assert_allclose(np.load(folder / "outputs.npy"), expected, atol=1e-5)


@functools.cache
def _loading_process():
    process = subprocess.Popen(
        [sys.executable, "-c", LOAD_AND_PREDICT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # closes its input, and waits
    return process
