"""Clipping of gradients by element, by norm or both, and the norms before clipping."""

import numbers
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Self, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.gradients import dense_gradient, global_norm
from keras_encdec.backend.types import Tensor

_NAME = "_gradient_norms"
#: `apply` of an optimizer, whose arguments are gradients and variables.
Apply: TypeAlias = Callable[[Sequence[Tensor | None], list[keras.Variable] | None], None]


class GradientNorms:
    """Adds up the norms of the gradients that an optimizer gets, before it clips them, and counts the clipped ones.

    The sums are variables of the optimizer, which a compiled step can change on every backend. The optimizer does not
    save them, so that its files do not change; they start at 0 in each process.

    Args:
        optimizer: `keras.optimizers.Optimizer`. Norms above its `global_clipnorm` count as clipped.

    Attributes:
        variables: list of two scalar `keras.Variable`, the sums.
        is_counting: bool. Whether `add` has an effect. It is read while a step is traced. Defaults to `True`.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self._bound, self.is_counting = optimizer.global_clipnorm, True
        self._norms, self._clipped = self.variables = [
            optimizer.add_variable((), dtype="float32", aggregation="only_first_replica", name=name)
            for name in ("gradient_norms", "clipped_gradients")
        ]
        #: Variables of the optimizer that it does not save: the sums, and those that other code appends.
        self.unsaved = [*self.variables]
        #: Functions that other code appends, and that wrap `apply` whenever `exact_clipping` sets it.
        self.wrappers: list[Callable[[Apply], Apply]] = []
        vars(optimizer)[_NAME] = self
        self.keep_out_of_files(optimizer)

    @classmethod
    def of(cls, optimizer: keras.optimizers.Optimizer) -> Self | None:
        """Returns the norms of an optimizer, or of the optimizer that it wraps; `None` if it has none."""
        return vars(getattr(optimizer, "inner_optimizer", optimizer)).get(_NAME)

    def keep_out_of_files(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Makes an optimizer neither save nor load the `unsaved` variables."""

        def variables() -> list[keras.Variable]:
            own = {id(variable) for variable in self.unsaved}
            return [variable for variable in optimizer.variables if id(variable) not in own]

        def save_own_variables(store: MutableMapping[str, np.ndarray]) -> None:
            for number, variable in enumerate(variables()):
                store[str(number)] = ops.convert_to_numpy(variable)

        def load_own_variables(store: Mapping[str, np.ndarray]) -> None:
            if len(store.keys()) == len(variables()):
                for number, variable in enumerate(variables()):
                    variable.assign(store[str(number)])
            else:  # Keras warns about the difference
                type(optimizer).load_own_variables(optimizer, store)

        vars(optimizer).update(save_own_variables=save_own_variables, load_own_variables=load_own_variables)

    def add(self, gradients: Sequence[Tensor | None], scale: float = 1.0) -> None:
        """Adds the norm of one update.

        Args:
            gradients: list of dense tensors, or `None`.
            scale: float. The factor by which the loss is scaled. Defaults to `1.0`.
        """
        if not self.is_counting or not gradients:  # Keras with JAX updates even a model that is frozen as a whole
            return
        norm = ops.cast(global_norm([gradient for gradient in gradients if gradient is not None]), "float32") / scale
        self._norms.assign(self._norms + norm)
        if self._bound:
            self._clipped.assign(self._clipped + ops.cast(norm > self._bound, "float32"))

    def reset(self) -> None:
        """Sets the sums to 0."""
        for variable in self.variables:
            variable.assign(0.0)

    @property
    def totals(self) -> tuple[float, float | None]:
        """The sum of the norms, and the number of clipped updates (`None` if the optimizer does not clip norms)."""
        norms, clipped = (float(ops.convert_to_numpy(variable)) for variable in self.variables)
        return norms, clipped if self._bound else None


def exact_clipping(optimizer: keras.optimizers.Optimizer, elements: float | None = None) -> keras.optimizers.Optimizer:
    """Makes an optimizer clip the elements of the gradient before its own clipping, with repeated words added up first.

        g_i <- min(max(g_i, -bound), bound)

    A Keras optimizer clips in one way only. Here the elements are clipped first; `global_clipnorm` then clips the norm
    of the result. Under TensorFlow, Keras clips the gradient of an embedding, and squares it for an average of squares,
    before it adds up the rows of a repeated word; here the rows are added up first. The optimizer's config does not
    change. `GradientNorms.of` returns the norms after the elements are clipped.

    Args:
        optimizer: `keras.optimizers.Optimizer`.
        elements: float. The bound of each element, positive. Defaults to `None`: elements are not clipped.

    Returns:
        the same optimizer.

    Raises:
        ValueError: for a bound that is not positive, and for a bound with an optimizer that accumulates gradients.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), section 2.3: gradient clipping
        - Pascanu et al., 2013 (arXiv 1211.5063): clipping of the norm
    """
    if elements is not None and not (isinstance(elements, numbers.Real) and elements > 0):
        raise ValueError(f"found clip_elements={elements!r}, expected a positive number")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        exact_clipping(optimizer.inner_optimizer, elements)  # its gradients are no longer scaled
        return optimizer
    if elements is not None and (steps := optimizer.gradient_accumulation_steps):
        raise ValueError(
            f"found clip_elements={elements!r} with gradient_accumulation_steps={steps}, expected one of the two: each "
            "gradient would be clipped before their mean is taken; give the optimizer clipvalue=, which clips the mean"
        )
    bound = elements and elements * (optimizer.loss_scale_factor or 1)
    # The method of the class, not the one that an earlier call has set.
    vars(optimizer).pop("apply", None)
    apply = optimizer.apply
    norms = GradientNorms.of(optimizer) or GradientNorms(optimizer)

    def clipped(gradient: Tensor | None) -> Tensor | None:
        gradient = dense_gradient(gradient)
        return gradient if gradient is None or bound is None else ops.clip(gradient, -bound, bound)

    def apply_clipped(
        gradients: Sequence[Tensor | None], trainable_variables: list[keras.Variable] | None = None
    ) -> None:
        exact = [clipped(gradient) for gradient in gradients]
        norms.add(exact, optimizer.loss_scale_factor or 1)
        apply(exact, trainable_variables)

    optimizer.apply = apply_clipped
    for wrapped in norms.wrappers:
        optimizer.apply = wrapped(optimizer.apply)
    return optimizer
