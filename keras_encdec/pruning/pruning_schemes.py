"""The classes of a model's weights, and the schemes of See, Luong and Manning (2016) that choose which become zero."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import ops

if TYPE_CHECKING:
    from keras_encdec.models.translation_model import TranslationModel

_EMBEDDINGS = {"encoder": "source embedding", "decoder": "target embedding"}


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
    # Weights in bfloat16 and float16 are converted to float32, which is exact; float64 stays.
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


def weight_classes(model: "TranslationModel") -> dict[str, list[keras.Variable]]:
    """Sorts the matrices of a model into the classes that pruning schemes and reports use.

    The encoder and the decoder name the classes of their weights by a method `weight_classes`. The matrices that
    neither names are sorted by what Keras knows of them: an embedding; the matrix of the `output_weights`; a layer with
    attention in its name; otherwise the layer that they are in, counted on each side. Biases, and all other weights of
    fewer than two dimensions, are in no class.

    Args:
        model: TranslationModel.

    Returns:
        dict of name to weights, such as "source embedding", "encoder layer 1", "decoder layer 2", "attention" and
        "softmax", in the order of the model's weights.

    Reference:
        - See, Luong and Manning, 2016 (arXiv 1606.09274), section 3.2: the classes
    """
    names = {
        id(weight): name
        for layer in (getattr(model, "encoder", None), getattr(model, "decoder", None))
        if layer is not None
        for name, weights in layer.weight_classes().items()
        for weight in weights
    }
    softmax = id(model.decoder.output_weights[0])
    numbers: dict[str, list[str]] = {}
    classes: dict[str, list[keras.Variable]] = {}
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            name = names.get(id(weight)) or ("softmax" if id(weight) == softmax else _by_path(weight, numbers))
            classes.setdefault(name, []).append(weight)
    return classes


def _by_path(weight: keras.Variable, numbers: dict[str, list[str]]) -> str:
    """Names the class of a weight by its path, such as "model/encoder/dense_3/kernel"."""
    *parents, name = weight.path.split("/")
    side = parents[1] if len(parents) > 1 else "model"
    if name == "embeddings":
        return _EMBEDDINGS.get(side, f"{side} embedding")
    if any("attention" in part for part in parents[2:]):
        return "attention"
    layers = numbers.setdefault(side, [])
    if (layer := "/".join(parents)) not in layers:
        layers.append(layer)
    return f"{side} layer {layers.index(layer) + 1}"


def may_be_pruned(weight: keras.Variable, values: np.ndarray) -> np.ndarray:
    """Returns the elements of a weight that may be pruned: all but an embedding's first row, which is padding.

    Args:
        weight: keras.Variable of the model.
        values: array of its shape. The result is a view of it.
    """
    return values[1:] if weight.name == "embeddings" else values


def shares_pruned(model: "TranslationModel") -> dict[str, tuple[int, int]]:
    """Counts the weights of each class that are exactly zero.

    Args:
        model: TranslationModel.

    Returns:
        dict of the class's name to the number of its zeros and that of its weights.
    """
    shares = {}
    for name, weights in weight_classes(model).items():
        values = [may_be_pruned(weight, ops.convert_to_numpy(weight)) for weight in weights]
        shares[name] = sum(int((array == 0).sum()) for array in values), sum(array.size for array in values)
    return shares


def pruned_share(model: "TranslationModel") -> float:
    """Computes the share of a model's matrices that is exactly zero, 0 to 1."""
    zeros, sizes = zip(*shares_pruned(model).values(), strict=True)
    return sum(zeros) / sum(sizes)
