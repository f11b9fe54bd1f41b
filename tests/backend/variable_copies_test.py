import concurrent.futures

import keras
import numpy as np
import pytest

from keras_encdec.backend.variable_copies import VariableCopies


def pairs():
    variables = [keras.Variable(np.full((2, 3), value, "float32")) for value in (1, 2)]
    return variables, [keras.Variable(np.zeros((2, 3)), dtype="bfloat16") for _ in variables]


def values(variables):
    return [float(keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))[0, 0]) for variable in variables]


def test_copies_follow_their_variables_in_another_dtype():
    variables, copies = pairs()
    following = VariableCopies(variables, copies)
    assert values(copies) == [1, 2]
    variables[0].assign(np.full((2, 3), 1 + 1 / 1024, "float32"))
    variables[1].assign_add(np.ones((2, 3), "float32"))
    following.update()
    assert values(copies) == [1, 3]
    variables[1].assign(np.full((2, 3), 5, "float32"))
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert all(threads.map(lambda _: following.update() or values(copies) == [1, 5], range(20)))


@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="TensorFlow does not tell what has changed")
def test_a_copy_whose_variable_has_not_changed_is_left_alone():
    variables, copies = pairs()
    following = VariableCopies(variables, copies)
    for copy in copies:
        copy.assign(np.full((2, 3), 9, "float32"))
    variables[1].assign(np.full((2, 3), 4, "float32"))
    following.update()
    assert values(copies) == [9, 4]


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch alone has an inference mode")
def test_variables_made_in_inference_mode_are_copied_once():
    import torch

    with torch.inference_mode():
        variables, copies = pairs()
        following = VariableCopies(variables, copies)
    following.update()
    assert values(copies) == [1, 2]
