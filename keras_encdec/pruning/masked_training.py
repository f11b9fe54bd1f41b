"""Keeps pruned weights at zero while a model is trained."""

from collections.abc import Mapping, Sequence
from typing import Self

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.gradients import dense_gradient
from keras_encdec.backend.types import Tensor
from keras_encdec.models.gradient_clipping import GradientNorms
from keras_encdec.models.likelihood_model import LikelihoodModel
from keras_encdec.pruning.pruning_schemes import may_be_pruned, pruning_masks, weight_classes

_NAME = "_pruning_masks"
_FIRST_SHARE = "first_share"


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
        self._model, self._classes = model, weight_classes(model)  # type: ignore[arg-type]
        if model.optimizer is None:
            raise ValueError("found a model without an optimizer, expected one that is compiled")
        optimizer: keras.optimizers.Optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        self._weights = [weight for weights in self._classes.values() for weight in weights]
        self._masks = [optimizer.add_variable(weight.shape, dtype="bool", name="mask") for weight in self._weights]
        for number, (mask, weight) in enumerate(zip(self._masks, self._weights, strict=True)):
            mask.assign(_unpacked(arrays[str(number)], weight.shape) if arrays else _not_zero(weight))
        #: The share that was pruned at the beginning of the training.
        self.first_share = float(arrays[_FIRST_SHARE]) if arrays else self.share
        if norms := GradientNorms.of(optimizer):
            norms.unsaved.extend(self._masks)
        vars(optimizer)[_NAME] = self
        self._wrap(optimizer)

    @classmethod
    def of(cls, model: keras.Model) -> Self | None:
        """Returns the masks of a compiled model; `None` if all its weights are trained."""
        return vars(getattr(model.optimizer, "inner_optimizer", model.optimizer)).get(_NAME)

    def _wrap(self, optimizer: keras.optimizers.Optimizer) -> None:
        apply = optimizer.apply
        mask_of = {id(weight): mask for weight, mask in zip(self._weights, self._masks, strict=True)}

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

        optimizer.apply = apply_masked

    @property
    def share(self) -> float:
        """The share of the model's matrices that is pruned now, 0 to 1."""
        masks = self._counted([ops.convert_to_numpy(mask) for mask in self._masks])
        return sum(int((~mask).sum()) for mask in masks) / sum(mask.size for mask in masks)

    def prune(self, share: float, scheme: str) -> None:
        """Prunes more weights: the masks and the weights change. For the arguments see `pruning_masks`."""
        arrays = [ops.convert_to_numpy(weight) for weight in self._weights]
        counted, classes, start = self._counted(arrays), {}, 0
        for name, weights in self._classes.items():
            classes[name] = counted[start : start + len(weights)]
            start += len(weights)
        kept = [mask for masks in pruning_masks(classes, share, scheme).values() for mask in masks]
        for variable, weight, array, part in zip(self._masks, self._weights, arrays, kept, strict=True):
            mask = ops.convert_to_numpy(variable).copy()
            mask[len(mask) - len(part) :] &= part
            variable.assign(mask)
            weight.assign(np.where(mask, array, np.zeros_like(array)))

    def applied(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Masks a list of arrays, as `model.get_weights` returns them."""
        mask_of = {id(weight): mask for weight, mask in zip(self._weights, self._masks, strict=True)}
        return [
            np.where(ops.convert_to_numpy(mask_of[id(variable)]), array, 0) if id(variable) in mask_of else array
            for variable, array in zip(self._model.weights, weights, strict=True)
        ]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Returns the masks, one bit per weight, and the share that was pruned at the beginning."""
        masks = {str(i): np.packbits(ops.convert_to_numpy(mask)) for i, mask in enumerate(self._masks)}
        return {_FIRST_SHARE: np.float64(self.first_share), **masks}  # type: ignore[dict-item]

    def _counted(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [may_be_pruned(*pair) for pair in zip(self._weights, arrays, strict=True)]


def _where(mask: keras.Variable, tensor: Tensor) -> Tensor:
    return ops.where(ops.convert_to_tensor(mask), tensor, ops.zeros_like(tensor))


def _not_zero(weight: keras.Variable) -> np.ndarray:
    values = ops.convert_to_numpy(weight)
    kept = np.ones(values.shape, bool)
    kept[len(values) - len(may_be_pruned(weight, values)) :] = may_be_pruned(weight, values) != 0
    return kept


def _unpacked(bits: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    size = int(np.prod(shape))
    if len(bits) != -(-size // 8):
        raise ValueError(f"its mask has {len(bits)} bytes, not those of {size} weights")
    return np.unpackbits(bits, count=size).astype(bool).reshape(shape)
