import numpy as np
import pytest
from gradients import double_precision
from keras import ops

from keras_encdec.decoding.sampler import forbid_words


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_forbidden_words_have_no_probability_and_others_keep_theirs(dtype):
    with double_precision():
        log_probs = np.log(np.random.default_rng(0).random((3, 9)))
        result = ops.convert_to_numpy(forbid_words(ops.convert_to_tensor(log_probs, dtype), [0, 4, 4]))
    assert result.dtype == dtype and np.isneginf(result[:, [0, 4]]).all()
    others = [1, 2, 3, 5, 6, 7, 8]
    np.testing.assert_array_equal(result[:, others], log_probs.astype(dtype)[:, others])
