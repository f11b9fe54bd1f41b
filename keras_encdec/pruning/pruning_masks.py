"""Chooses the weights that pruning sets to zero, as in See, Luong and Manning (2016), and keeps them at zero."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.gradients import dense_gradient
from keras_encdec.backend.types import Tensor
from keras_encdec.configuration import check_choice
from keras_encdec.models.gradient_clipping import Apply, GradientNorms
from keras_encdec.models.likelihood_model import LikelihoodModel
from keras_encdec.pruning.pruning_options import SCHEMES

if TYPE_CHECKING:
    from keras_encdec.models.translation_model import TranslationModel

# The attribute of the optimizer that holds its `PruningMasks`, and the name of their first share among their arrays.
_NAME = "_pruning_masks"
_FIRST_SHARE = "first_share"
_EMBEDDINGS = {"encoder": "source embedding", "decoder": "target embedding"}


def pruning_masks(
    classes: Mapping[str, Sequence[np.ndarray]], share: float, scheme: str = "class_blind"
) -> dict[str, list[np.ndarray]]:
    """Chooses the weights that stay.

        class_blind          pruned where |w| <= lambda
        class_uniform        pruned where |w| <= lambda_c, with the same share in each class c
        class_distribution   pruned where |w| <= lambda sigma_c, sigma_c the standard deviation of the weights of c

    lambda is chosen such that the share x of all N weights is pruned: round(x N), where halves are rounded to even. If
    several weights have exactly the magnitude of the threshold, the first of them are pruned.

    Args:
        classes: dict from name to the arrays of a class, float.
        share: float, 0 to 1.
        scheme: "class_blind", "class_uniform" or "class_distribution". Defaults to "class_blind".

    Returns:
        dict from name to boolean arrays of the same shapes, true where a weight stays. A weight that is zero is among
        the first to be pruned.

    Raises:
        ValueError: for an unknown scheme, and for a share out of range.

    Reference:
        - See, Luong and Manning, 2016 (arXiv 1606.09274), section 3.2

    Example:

    >>> weights = {"a": [np.array([0.1, -0.4])], "b": [np.array([[2.0], [-1.0]])]}
    >>> {name: masks[0].ravel().tolist() for name, masks in pruning_masks(weights, 0.5).items()}
    {'a': [False, False], 'b': [True, True]}
    >>> {name: masks[0].ravel().tolist() for name, masks in pruning_masks(weights, 0.5, "class_uniform").items()}
    {'a': [False, True], 'b': [True, False]}
    """
    check_choice("scheme", scheme, SCHEMES)
    if not 0 <= share <= 1:
        raise ValueError(f"found share={share!r}, expected a number from 0 to 1")
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

    The methods `weight_classes` of the encoder and of the decoder name the classes of their weights. The classes of all
    other matrices depend on their place in the Keras model: embeddings; the matrix of the `output_weights`; matrices of
    layers with "attention" in their names; all others by layer, numbered separately on each side. Biases, and all other
    weights of fewer than two dimensions, are in no class.

    Returns:
        dict from name to weights, such as "source embedding", "encoder layer 1", "decoder layer 2", "attention" and
        "softmax", in the order of the model's weights.

    Reference:
        - See, Luong and Manning, 2016 (arXiv 1606.09274), section 3.2: the classes
    """
    names = {
        id(weight): name
        for layer in (model.encoder, model.decoder)
        for name, weights in layer.weight_classes().items()
        for weight in weights
    }
    softmax = id(model.decoder.output_weights[0])
    numbers: dict[str, list[str]] = {}
    classes: dict[str, list[keras.Variable]] = {}
    for weight in model.weights:  # a frozen model has no trainable ones
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


def prunable_part(weight: keras.Variable, values: np.ndarray) -> np.ndarray:
    """Returns the elements of a weight that may be pruned: all but an embedding's first row, which is padding.

    Args:
        weight: keras.Variable of the model.
        values: array of its shape. The result is a view of it.
    """
    return values[1:] if weight.name == "embeddings" else values


def zero_counts(model: "TranslationModel") -> dict[str, tuple[int, int]]:
    """Counts the weights of each class that are exactly zero.

    Returns:
        dict from the class's name to the number of its zeros and that of its weights.
    """
    counts = {}
    for name, weights in weight_classes(model).items():
        values = [prunable_part(weight, ops.convert_to_numpy(weight)) for weight in weights]
        counts[name] = sum(int((array == 0).sum()) for array in values), sum(array.size for array in values)
    return counts


def pruned_share(model: "TranslationModel") -> float:
    """Computes the share of a model's matrices that is exactly zero, 0 to 1."""
    return zero_share(zero_counts(model))


def zero_share(counts: Mapping[str, tuple[int, int]]) -> float:
    """Computes the share of zeros, 0 to 1, in the counts of `zero_counts`."""
    zeros, sizes = zip(*counts.values(), strict=True)
    return sum(zeros) / sum(sizes)


def prune_weights(model: LikelihoodModel, share: float, scheme: str) -> list[np.ndarray]:
    """Sets the smallest weights of a model to zero, in place. For the arguments see `pruning_masks`.

    Returns:
        list of boolean arrays, one for each weight in the order of `weight_classes`, true where it stays.
    """
    classes = weight_classes(model)
    arrays = {
        name: [prunable_part(weight, ops.convert_to_numpy(weight)) for weight in weights]
        for name, weights in classes.items()
    }
    all_kept = []
    for name, parts in pruning_masks(arrays, share, scheme).items():
        for weight, part in zip(classes[name], parts, strict=True):
            kept = np.ones(weight.shape, bool)
            prunable_part(weight, kept)[:] = part
            weight.assign(np.where(kept, ops.convert_to_numpy(weight), 0))
            all_kept.append(kept)
    return all_kept


class PruningMasks:
    """Makes the optimizer of a compiled model keep pruned weights at zero.

        g <- m g,   an update by any optimizer,   w <- m w

    m is 0 for a pruned weight, 1 for the others. The gradient is masked before it is clipped, so that its norm is that
    of the remaining weights, and so that momentum and the averages of squares of pruned weights go to zero. The weight
    is masked after the update, so that it is exactly zero with every optimizer.

    The masks are variables of the optimizer, which a compiled step reads on every backend. The optimizer does not save
    them; see `to_arrays`.

    Args:
        model: compiled TranslationModel. The weights that are zero now are pruned.
        arrays: dict, the masks of an earlier process, see `to_arrays`. Defaults to none.

    Raises:
        ValueError: for arrays that are not those of the model.
    """

    def __init__(self, model: LikelihoodModel, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self._model = model
        if model.optimizer is None:
            raise ValueError("found a model without an optimizer, expected one that is compiled")
        optimizer: keras.optimizers.Optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        self._weights = [weight for weights in weight_classes(model).values() for weight in weights]
        self._masks = [optimizer.add_variable(weight.shape, dtype="bool", name="mask") for weight in self._weights]
        self._mask_of = {id(weight): mask for weight, mask in zip(self._weights, self._masks, strict=True)}
        for number, (mask, weight) in enumerate(zip(self._masks, self._weights, strict=True)):
            mask.assign(_unpacked(arrays[str(number)], weight.shape) if arrays else _not_zero(weight))
        #: The share that was pruned at the beginning of the training.
        self.first_share = float(arrays[_FIRST_SHARE]) if arrays else self.share
        if norms := GradientNorms.of(optimizer):
            norms.unsaved.extend(self._masks)
            norms.wrappers.append(self._masking)  # for when the model is compiled again with this optimizer
        vars(optimizer)[_NAME] = self
        optimizer.apply = self._masking(optimizer.apply)

    @classmethod
    def of(cls, model: keras.Model) -> Self | None:
        """Returns the masks of a compiled model; `None` if all its weights are trained."""
        return vars(getattr(model.optimizer, "inner_optimizer", model.optimizer)).get(_NAME)

    def _masking(self, apply: Apply) -> Apply:
        """Wraps `apply` of the optimizer."""
        mask_of = self._mask_of

        def masked(gradient: Tensor | None, weight: keras.Variable) -> Tensor | None:
            mask = mask_of.get(id(weight))
            return gradient if gradient is None or mask is None else _where(mask, dense_gradient(gradient))

        def apply_masked(
            gradients: Sequence[Tensor | None], trainable_variables: list[keras.Variable] | None = None
        ) -> None:
            weights = self._model.trainable_variables if trainable_variables is None else trainable_variables
            apply([masked(*pair) for pair in zip(gradients, weights, strict=True)], trainable_variables)
            for weight, mask in zip(self._weights, self._masks, strict=True):
                weight.assign(_where(mask, ops.convert_to_tensor(weight)))

        return apply_masked

    @property
    def share(self) -> float:
        """The share of the model's matrices that is pruned now, 0 to 1."""
        pairs = zip(self._weights, self._masks, strict=True)
        masks = [prunable_part(weight, ops.convert_to_numpy(mask)) for weight, mask in pairs]
        return sum(int((~mask).sum()) for mask in masks) / sum(mask.size for mask in masks)

    def has_share(self, share: float, scheme: str) -> bool:
        """Returns whether `prune` with these arguments would prune no more weights."""
        sizes = [size for _, size in zero_counts(self._model).values()]
        pruned = round(self.share * sum(sizes))
        return pruned >= (
            sum(round(share * size) for size in sizes) if scheme == "class_uniform" else round(share * sum(sizes))
        )

    def prune(self, share: float, scheme: str) -> None:
        """Prunes more weights: the masks and the weights change. For the arguments see `pruning_masks`."""
        for mask, kept in zip(self._masks, prune_weights(self._model, share, scheme), strict=True):
            mask.assign(ops.convert_to_numpy(mask) & kept)

    def applied(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Masks a list of arrays, as `model.get_weights` returns them."""
        return [
            array if (mask := self._mask_of.get(id(weight))) is None else np.where(ops.convert_to_numpy(mask), array, 0)
            for weight, array in zip(self._model.weights, weights, strict=True)
        ]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Returns the masks, one bit per weight, and the share that was pruned at the beginning."""
        masks = {str(i): np.packbits(ops.convert_to_numpy(mask)) for i, mask in enumerate(self._masks)}
        return {_FIRST_SHARE: np.float64(self.first_share), **masks}  # type: ignore[dict-item]


def _where(mask: keras.Variable, tensor: Tensor) -> Tensor:
    return ops.where(ops.convert_to_tensor(mask), tensor, ops.zeros_like(tensor))


def _not_zero(weight: keras.Variable) -> np.ndarray:
    values = ops.convert_to_numpy(weight)
    kept = np.ones(values.shape, bool)
    prunable_part(weight, kept)[:] = prunable_part(weight, values) != 0
    return kept


def _unpacked(bits: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    size = int(np.prod(shape))
    if len(bits) != -(-size // 8):
        raise ValueError(f"its mask has {len(bits)} bytes, expected {-(-size // 8)} for {size} weights")
    return np.unpackbits(bits, count=size).astype(bool).reshape(shape)
