"""The three schemes of See, Luong and Manning (2016) that choose which weights become zero."""

from collections.abc import Mapping, Sequence

import numpy as np


def pruning_masks(
    classes: Mapping[str, Sequence[np.ndarray]], share: float, scheme: str = "class_blind"
) -> dict[str, list[np.ndarray]]:
    """Chooses the weights that stay.

        class_blind          pruned where |w| <= lambda
        class_uniform        pruned where |w| <= lambda_c, with the same share in each class c
        class_distribution   pruned where |w| <= lambda sigma_c, sigma_c the standard deviation of the weights of c

    lambda is such that the share x of all weights is pruned: round(x N) of N, half to even. Of equal magnitudes at the
    threshold, those that come first are pruned.

    Args:
        classes: dict of name to the arrays of a class, float.
        share: float, 0 to 1.
        scheme: "class_blind", "class_uniform" or "class_distribution". Defaults to "class_blind".

    Returns:
        dict of name to boolean arrays of the same shapes, true where a weight stays. A weight that is zero is among the
        first to be pruned.

    Reference:
        - See, Luong and Manning, 2016 (arXiv 1606.09274), section 3.2

    Example:

    >>> weights = {"a": [np.array([0.1, -0.4])], "b": [np.array([[2.0], [-1.0]])]}
    >>> {name: masks[0].ravel().tolist() for name, masks in pruning_masks(weights, 0.5).items()}
    {'a': [False, False], 'b': [True, True]}
    >>> {name: masks[0].ravel().tolist() for name, masks in pruning_masks(weights, 0.5, "class_uniform").items()}
    {'a': [False, True], 'b': [True, False]}
    """
    magnitudes = {name: _flat([np.abs(array) for array in arrays]) for name, arrays in classes.items()}
    if scheme == "class_distribution":
        magnitudes = {name: _over_deviation(magnitudes[name], _flat(classes[name])) for name in classes}
    if scheme == "class_uniform":
        kept = {name: _largest(values, share) for name, values in magnitudes.items()}
    else:
        largest = _largest(_flat(list(magnitudes.values())), share)
        ends = np.cumsum([values.size for values in magnitudes.values()])[:-1]
        kept = dict(zip(magnitudes, np.split(largest, ends), strict=True))
    return {name: _shaped(kept[name], arrays) for name, arrays in classes.items()}


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    # float32 holds the bfloat16 and float16 of other weights exactly, float64 stays.
    return np.concatenate([np.asarray(array, np.result_type(np.float32, array.dtype)).ravel() for array in arrays])


def _over_deviation(magnitudes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Divides by the standard deviation; in a class of equal weights, only zeros are small."""
    deviation = np.std(values, dtype=np.float64)
    return magnitudes / deviation if deviation else np.where(magnitudes == 0, 0.0, np.inf)


def _largest(magnitudes: np.ndarray, share: float) -> np.ndarray:
    """Marks all but the smallest round(share N) magnitudes."""
    number = round(share * magnitudes.size)
    if not number:
        return np.ones(magnitudes.size, bool)
    threshold = np.partition(magnitudes, number - 1)[number - 1]
    kept = magnitudes > threshold
    ties = np.flatnonzero(magnitudes == threshold)
    kept[ties[number - int((magnitudes < threshold).sum()) :]] = True
    return kept


def _shaped(flat: np.ndarray, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    ends = np.cumsum([array.size for array in arrays])[:-1]
    return [part.reshape(array.shape) for part, array in zip(np.split(flat, ends), arrays, strict=True)]
