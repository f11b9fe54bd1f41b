"""Which weights the three schemes prune, against the definitions in NumPy float64."""

import numpy as np
import pytest

from keras_encdec.pruning import pruning_masks
from keras_encdec.pruning.pruning_options import SCHEMES

RANDOM = np.random.default_rng(3)
CLASSES = {
    "small": [RANDOM.normal(0, 0.1, (7, 5)), RANDOM.normal(0, 0.1, (3, 4))],
    "large": [RANDOM.normal(0, 2.0, (6, 9))],
    "skewed": [RANDOM.exponential(1.0, (5, 5, 2))],
}


def thresholds(classes, share, scheme):
    """The threshold of each class: the largest magnitude that is pruned, by sorting."""

    def smallest(values):
        number = round(share * len(values))
        return sorted(values)[number - 1] if number else -1.0

    flat = {name: np.concatenate([array.ravel() for array in arrays]) for name, arrays in classes.items()}
    if scheme == "class_uniform":
        return {name: smallest(abs(values)) for name, values in flat.items()}
    scale = {name: values.std() if scheme == "class_distribution" else 1.0 for name, values in flat.items()}
    value = smallest([abs(v) / scale[name] for name, values in flat.items() for v in values])
    return {name: value * scale[name] for name in flat}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.8, 0.99, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_masks_are_those_of_the_thresholds(scheme, share, dtype):
    classes = {name: [array.astype(dtype) for array in arrays] for name, arrays in CLASSES.items()}
    exact = {name: [array.astype(np.float64) for array in arrays] for name, arrays in classes.items()}
    limits = thresholds(exact, share, scheme)
    masks = pruning_masks(classes, share, scheme)
    for name, arrays in exact.items():
        for array, mask in zip(arrays, masks[name], strict=True):
            near = np.isclose(abs(array), limits[name], rtol=1e-6)  # the quotient may round to either side
            np.testing.assert_array_equal(mask[~near], (abs(array) > limits[name])[~near])
    kept = {name: sum(int(mask.sum()) for mask in each) for name, each in masks.items()}
    sizes = {name: sum(array.size for array in arrays) for name, arrays in exact.items()}
    if scheme == "class_uniform":
        assert kept == {name: size - round(share * size) for name, size in sizes.items()}
    else:
        assert sum(kept.values()) == sum(sizes.values()) - round(share * sum(sizes.values()))


def test_schemes_differ_as_in_the_paper():
    """Class-blind takes most from the class of small weights, class-distribution does not."""
    kept = {scheme: pruning_masks(CLASSES, 0.5, scheme)["small"][0].mean() for scheme in SCHEMES}
    assert kept["class_blind"] < 0.05 and kept["class_distribution"] > 0.3


@pytest.mark.parametrize("scheme", SCHEMES)
def test_equal_weights_are_pruned_by_the_exact_number_and_zeros_first(scheme):
    masks = pruning_masks({"equal": [np.ones((4, 5))], "zero": [np.zeros((2, 5))]}, 0.5, scheme)
    pruned = [int((~masks[name][0]).sum()) for name in ("equal", "zero")]
    assert pruned == ([10, 5] if scheme == "class_uniform" else [5, 10])


@pytest.mark.parametrize(
    "share, scheme, message",
    [
        (0.5, "class-blind", "found scheme='class-blind', expected one of class_blind, class_uniform"),
        (-0.1, "class_blind", "found share=-0.1, expected a number from 0 to 1"),
        (40, "class_uniform", "found share=40, expected a number from 0 to 1"),
        (np.nan, "class_blind", "found share=nan, expected a number from 0 to 1"),
    ],
)
def test_other_schemes_and_shares_are_refused(share, scheme, message):
    with pytest.raises(ValueError, match=message):
        pruning_masks(CLASSES, share, scheme)
