"""Clipping of the gradient as it is, in its elements, its norm or both."""

import keras
from keras import ops

from keras_encdec.backend.gradients import dense_gradient
from keras_encdec.models.gradient_norms import GradientNorms


def exact_clipping(
    optimizer: keras.optimizers.Optimizer, elements: float | None = None
) -> keras.optimizers.Optimizer:
    """Makes an optimizer clip each element of the gradient first, and then in its own way, exactly.

        g_i <- min(max(g_i, -bound), bound)

    Keras's optimizers clip in one way each; with this one before it, `global_clipnorm` clips the norm of what
    is left, and both are in force together. And under TensorFlow they clip the gradient of an embedding
    before the rows of a word that occurs more than once are added up; here these are added up first.
    Neither is part of the optimizer's config. `GradientNorms.of` has the norms that are left before the second.

    Args:
        optimizer: `keras.optimizers.Optimizer`.
        elements: float, positive, the bound. Defaults to `None`: no such clipping.

    Returns:
        the same optimizer.

    Raises:
        ValueError: for a bound that is not positive.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), section 2.3: gradient clipping
        - Pascanu et al., 2013 (arXiv 1211.5063): clipping of the norm
    """
    if elements is not None and not elements > 0:
        raise ValueError(f"found clip_elements={elements}, expected a positive number")
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        exact_clipping(optimizer.inner_optimizer, elements)  # which gets the gradient at its own scale
        return optimizer
    bound = elements and elements * (optimizer.loss_scale_factor or 1)
    # The class's own, whatever an earlier call has put in its place.
    vars(optimizer).pop("apply", None)
    apply = optimizer.apply
    norms = GradientNorms.of(optimizer) or GradientNorms(optimizer)

    def clipped(gradient):
        gradient = dense_gradient(gradient)
        return gradient if gradient is None or bound is None else ops.clip(gradient, -bound, bound)

    def apply_clipped(gradients, trainable_variables=None):
        exact = [clipped(gradient) for gradient in gradients]
        norms.add(exact, optimizer.loss_scale_factor or 1)
        apply(exact if clips else gradients, trainable_variables)

    clips = any([elements, optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue])
    optimizer.apply = apply_clipped
    return optimizer
