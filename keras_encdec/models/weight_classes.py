"""The classes of a model's weights for pruning: each layer's matrices on each side, embeddings, attention, softmax."""

from typing import TYPE_CHECKING

import keras
import numpy as np
from keras import ops

if TYPE_CHECKING:
    from keras_encdec.models.translation_model import TranslationModel

_EMBEDDINGS = {"encoder": "source embedding", "decoder": "target embedding"}


def weight_classes(model: "TranslationModel") -> dict[str, list[keras.Variable]]:
    """Sorts the matrices of a model into classes: those that a pruning scheme treats alike, and a report shows.

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
    """Returns the elements of a weight that pruning counts: all but the first row of an embedding, that of padding.

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
