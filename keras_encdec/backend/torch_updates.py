"""The updates of Adadelta and Adam under PyTorch on a CPU, a block of weights at a time."""

from collections.abc import Callable, Iterator, Sequence

import keras
from keras import ops

from keras_encdec.backend.types import Tensor

#: Number of weights in a block. With their gradients and the optimizer's means, they fit into a processor's cache
#: (`benchmarks/run.py`, training).
BLOCK = 2**18

Update = Callable[[keras.optimizers.Optimizer, Sequence[keras.Variable], Sequence[Tensor], float], None]


def update_by_blocks(optimizer: keras.optimizers.Optimizer) -> None:
    """Makes Adadelta or Adam update a block of weights at a time; other optimizers stay as they are.

    Keras computes each operation of the update for all weights before the next, and so reads and writes them, their
    gradients and the optimizer's means from memory many times: for a large model, this takes a fifth of a training
    step. By blocks, they are read and written once. Results differ from Keras's by rounding only.

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
    }
    update = updates.get(type(optimizer))
    if update is None or getattr(optimizer, "amsgrad", False):
        return

    def update_step(gradients: Sequence[Tensor], variables: Sequence[keras.Variable], learning_rate: Tensor) -> None:
        update(optimizer, variables, gradients, float(learning_rate))

    # Keras calls it without gradients.
    optimizer._parallel_update_step = update_step


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
    learning_rate: float,
) -> None:
    rho, epsilon = optimizer.rho, optimizer.epsilon
    means = optimizer._accumulated_grads, optimizer._accumulated_delta_vars
    for g, weights, squares, squared_steps in _blocks(optimizer, variables, gradients, *means):
        squares.mul_(rho).addcmul_(g, g, value=1 - rho)
        step = (squared_steps + epsilon).div_(squares + epsilon).sqrt_().mul_(g)
        squared_steps.mul_(rho).addcmul_(step, step, value=1 - rho)
        weights.add_(step, alpha=-learning_rate)


def _update_adam(
    optimizer: keras.optimizers.Adam,
    variables: Sequence[keras.Variable],
    gradients: Sequence[Tensor],
    learning_rate: float,
) -> None:
    beta_1, beta_2 = optimizer.beta_1, optimizer.beta_2
    # With the digits of the weights, as in Keras: at first, few are left of the difference from 1.
    number, *bases = (ops.cast(value, variables[0].dtype) for value in (optimizer.iterations + 1, beta_1, beta_2))
    left_1, left_2 = (1 - ops.power(base, number) for base in bases)
    rate = learning_rate * float(ops.sqrt(left_2) / left_1)
    means = optimizer._momentums, optimizer._velocities
    for g, weights, mean, squares in _blocks(optimizer, variables, gradients, *means):
        mean.mul_(beta_1).add_(g, alpha=1 - beta_1)
        squares.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
        weights.addcdiv_(mean, squares.sqrt().add_(optimizer.epsilon), value=-rate)
