"""The updates of Adadelta, Adam and SGD under PyTorch on a CPU, with few passes over the weights."""

import math
from collections.abc import Callable, Iterator, Sequence

import keras
from keras import ops

from keras_encdec.backend.gradients import global_norm
from keras_encdec.backend.types import Tensor

#: Number of weights in a block. With their gradients and the optimizer's means, they fit into a processor's cache
#: (`benchmarks/run.py`, training).
BLOCK = 2**18

#: Takes the optimizer, its variables, their gradients, the factor that clips these, and the learning rate.
Update = Callable[[keras.optimizers.Optimizer, Sequence[keras.Variable], Sequence[Tensor], float, float], None]


def update_in_few_passes(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes Adadelta, Adam, or SGD without momentum update with few passes; other optimizers stay as they are.

    Keras computes each operation of the update for all weights before the next, and so reads and writes them, their
    gradients and the optimizer's means from memory many times: for a large model, this takes a quarter of a training
    step. Here they are read and written once, by PyTorch's fused function or a block at a time, and the gradients are
    clipped on the way. Results differ from Keras's by rounding only.

    Args:
        optimizer: `keras.optimizers.Optimizer` under PyTorch, which may scale the loss.

    Reference:
        - Zeiler, 2012 (arXiv 1212.5701): Adadelta
        - Kingma and Ba, 2015 (arXiv 1412.6980): Adam
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # Not isinstance: a subclass may compute its updates in another way.
    updates: dict[type, Update] = {
        type(keras.optimizers.Adadelta()): _update_adadelta,
        type(keras.optimizers.Adam()): _update_adam,
        type(keras.optimizers.SGD()): _update_sgd,
    }
    update = updates.get(type(optimizer))
    if update is None or getattr(optimizer, "amsgrad", False) or getattr(optimizer, "momentum", 0):
        return
    bound, scale = optimizer.global_clipnorm, 1.0

    # Keras clips all gradients together before it updates. A model of several tasks updates its parts one by one.
    def clip(gradients: list[Tensor]) -> list[Tensor]:
        nonlocal scale
        scale = _clipping_factor(gradients, bound)
        return gradients

    def update_step(gradients: Sequence[Tensor], variables: Sequence[keras.Variable], learning_rate: Tensor) -> None:
        update(optimizer, variables, gradients, scale, float(learning_rate))

    # Keras calls both without recording gradients.
    optimizer._parallel_update_step = update_step
    if bound:
        optimizer._clip_gradients = clip


def _clipping_factor(gradients: Sequence[Tensor], bound: float) -> float:
    """Returns the factor that reduces the norm of all gradients to a bound: 1 below it, NaN if it is not finite."""
    norm = float(global_norm(gradients))
    if not math.isfinite(norm):
        return math.nan
    return min(1.0, bound / norm) if norm else 1.0


def _blocks(
    optimizer: keras.optimizers.Optimizer,
    variables: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    *means: Sequence[keras.Variable],
) -> Iterator[tuple[Tensor, ...]]:
    """Yields the blocks of each gradient, its variable and the optimizer's means of it.

    All but the gradients are views, which are changed in place.
    """
    for variable, gradient in zip(variables, gradients, strict=True):
        index = optimizer._get_variable_index(variable)
        changed = [variable.value, *(kept[index].value for kept in means)]
        if all(tensor.is_contiguous() for tensor in changed):
            flat = [gradient.reshape(-1), *(tensor.view(-1) for tensor in changed)]
            yield from zip(*(tensor.split(BLOCK) for tensor in flat), strict=True)
        else:  # a block would be a copy
            yield gradient, *changed


def _update_adadelta(
    optimizer: keras.optimizers.Adadelta,
    variables: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    scale: float,
    learning_rate: float,
) -> None:
    rho, epsilon = optimizer.rho, optimizer.epsilon
    means = optimizer._accumulated_grads, optimizer._accumulated_delta_vars
    for gradient, weights, squares, squared_steps in _blocks(optimizer, variables, gradients, *means):
        g = gradient if scale == 1 else gradient * scale
        squares.mul_(rho).addcmul_(g, g, value=1 - rho)
        step = (squared_steps + epsilon).div_(squares + epsilon).sqrt_().mul_(g)
        squared_steps.mul_(rho).addcmul_(step, step, value=1 - rho)
        weights.add_(step, alpha=-learning_rate)


def _update_adam(
    optimizer: keras.optimizers.Adam,
    variables: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    scale: float,
    learning_rate: float,
) -> None:
    import torch
    from torch.optim.adam import adam

    beta_1, beta_2 = optimizer.beta_1, optimizer.beta_2
    number = int(optimizer.iterations) + 1
    exact_1, exact_2 = 1 - beta_1**number, 1 - beta_2**number
    # In the dtype of the weights, as in Keras: at first, the rounded powers are so close to 1 that their differences
    # from 1 have few correct digits.
    power, *bases = (ops.cast(value, variables[0].dtype) for value in (number, beta_1, beta_2))
    left_1, left_2 = (float(1 - ops.power(base, power)) for base in bases)
    kept = optimizer._momentums, optimizer._velocities
    indices = [optimizer._get_variable_index(variable) for variable in variables]
    changed = [list(variables), *([means[index] for index in indices] for means in kept)]
    # The fused function expects contiguous tensors. `contiguous` copies others only.
    weights, means, squares = updated = [[each.value.contiguous() for each in same_kind] for same_kind in changed]
    adam(
        weights,
        [gradient.contiguous() for gradient in gradients],
        means,
        squares,
        [],
        [torch.tensor(float(number - 1)) for _ in variables],
        fused=True,
        grad_scale=None if scale == 1 else torch.tensor(1 / scale),
        amsgrad=False,
        beta1=beta_1,
        beta2=beta_2,
        # PyTorch corrects the bias with the exact differences; this puts Keras's in their place.
        lr=learning_rate * math.sqrt(left_2 / exact_2) * exact_1 / left_1,
        weight_decay=0.0,
        # Keras adds epsilon to the root of the squares before it corrects their bias.
        eps=optimizer.epsilon / math.sqrt(exact_2),
        maximize=False,
    )
    for variable, tensor in zip(sum(changed, []), sum(updated, []), strict=True):
        if tensor is not variable.value:
            variable.value.copy_(tensor)


def _update_sgd(
    optimizer: keras.optimizers.SGD,
    variables: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    scale: float,
    learning_rate: float,
) -> None:
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.value.add_(gradient, alpha=-learning_rate * scale)
