"""The recurrence: a step applied along time, and its back-propagation through time."""

import functools
from collections.abc import Callable, Sequence

import keras
from keras import ops

from keras_encdec.backend.gradients import custom_gradient, is_differentiable, summed_product
from keras_encdec.backend.loops import TimeLoop, time_loop
from keras_encdec.backend.operations import as_tensor
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.errors import not_defined


class RecurrentStep:
    """Base of steps with a hand-written gradient.

    Automatic differentiation computes the gradient of the recurrent matrix at each step, a product of `batch` rows, and
    adds up the gradients of all steps. Here `backward` returns only the two factors of that product, and
    `parameter_gradients` multiplies the factors of all steps at once. `benchmarks/recurrence.py` measures the benefit.
    Where speed does not matter, a plain function `step(inputs_t, state, parameters) -> state` is enough.

    A subclass defines `forward` and `backward`, and, unless its only parameter is one matrix, `parameter_gradients`.
    They must use only the tensors in their arguments: other tensors and variables would get no gradient.
    """

    def __call__(self, inputs_t: Structure, state: Structure, parameters: Structure) -> Structure:
        """Returns the new state, without the tensors for `backward`."""
        return self.forward(inputs_t, state, parameters)[0]

    def forward(self, inputs_t: Structure, state: Structure, parameters: Structure) -> tuple[Structure, Structure]:
        """Takes one step.

        Args:
            inputs_t: structure of tensors `(batch, ...)`.
            state: structure of tensors `(batch, ...)`.
            parameters: structure of tensors.

        Returns:
            tuple: the new state, and a structure of tensors for `backward`.
        """
        raise not_defined(self, "forward")

    def backward(
        self, d_state: Structure, state: Structure, saved: Structure, parameters: Structure
    ) -> tuple[Structure, Structure, Structure]:
        """Computes the gradients of one step.

        Args:
            d_state: gradient of the new state, in its structure, with `None` for tensors without a float dtype.
            state: the state before the step.
            saved: the tensors that `forward` returned for this step.
            parameters: structure of tensors.

        Returns:
            tuple: the gradients of the inputs and of the state before the step, in their structures, with `None` for
            tensors without a float dtype; and a structure of tensors `(batch, ...)` for `parameter_gradients`.
        """
        raise not_defined(self, "backward")

    def parameter_gradients(self, factors: Structure) -> Structure:
        """Computes the gradients of the parameters, summed over all steps; by default, for one matrix as the parameter.

        Args:
            factors: the factors that `backward` returned, of all steps, each tensor `(time, batch, ...)`.

        Returns:
            the gradients in the structure of the parameters, with `None` for tensors without a float dtype.
        """
        return [summed_product(*factors)]


def run_recurrence(
    step: RecurrentStep | Callable[[Structure, Structure, Structure], Structure],
    inputs: Structure,
    initial_state: Structure,
    parameters: Structure = (),
    mask: Tensor | None = None,
) -> Structure:
    """Applies `step` along time.

        state_t = step(inputs_t, state_{t-1}, parameters)    state_{t-1} where step t is masked

    Gradients flow to the inputs, the initial state and the parameters; a step that is a plain function may also use
    other tensors, which then get gradients. Up to 8 steps are unrolled; more run as a loop, whose compile time does not
    depend on the length. PyTorch always runs step by step.

    Args:
        step: function `(inputs_t, state, parameters) -> state`, which is differentiated automatically, or a
            `RecurrentStep`, which has a hand-written gradient.
        inputs: structure (tensor, list, tuple, dict, nested) of tensors `(batch, time, ...)` of any dtype, with at
            least one step.
        initial_state: structure of tensors `(batch, ...)` of any dtype, which the state keeps.
        parameters: structure of tensors that do not change with time, such as recurrent matrices, or the memory of a
            source. Defaults to no parameters.
        mask: boolean tensor `(batch, time)`, false on padding, where the state stays as it is. Defaults to `None`: no
            padding.

    Returns:
        structure of the state, each tensor `(batch, time, ...)`: the state after every step.

    Raises:
        ValueError: for inputs without steps, and for a mask whose shape is not `(batch, time)`.

    Example:

    >>> from keras import ops
    >>> states = run_recurrence(
    ...     lambda x, state, parameters: {"sum": state["sum"] + x, "steps": state["steps"] + 1},
    ...     ops.convert_to_tensor([[1.0, 2.0, 3.0]]),
    ...     {"sum": ops.zeros(1), "steps": ops.zeros(1, "int32")},
    ... )
    >>> ops.convert_to_numpy(states["sum"]).tolist(), ops.convert_to_numpy(states["steps"]).tolist()
    ([[1.0, 3.0, 6.0]], [[1, 2, 3]])
    """
    masks = [] if mask is None else [ops.cast(mask, "bool")]
    arguments = keras.tree.map_structure(as_tensor, [inputs, initial_state, parameters, masks])
    steps = keras.tree.flatten(arguments[0])[0].shape[1]
    if steps == 0:
        raise ValueError("found inputs without steps, expected at least one step")
    if masks and (len(masks[0].shape) != 2 or len({steps, masks[0].shape[1]} - {None}) > 1):
        # Loops of some backends would read the first steps of a longer mask.
        raise ValueError(f"found a mask of shape {tuple(masks[0].shape)}, expected (batch, {steps})")
    loop = time_loop(steps)
    if not isinstance(step, RecurrentStep):
        return loop.join(_states(loop, lambda *now: (step(*now), ()), *arguments)[0])

    def forward(*leaves: Tensor) -> tuple[list[Tensor], Structure]:
        arguments = keras.tree.pack_sequence_as(structure, list(leaves))
        states, saved = _states(loop, step.forward, *arguments)
        return keras.tree.flatten(loop.join(states)), (arguments, states, saved)

    def backward(residuals: Structure, upstream: list[Tensor]) -> list[Tensor | None]:
        (inputs, initial_state, parameters, masks), states, saved = residuals
        return _gradients(loop, step, inputs, initial_state, parameters, masks, states, saved, upstream)

    structure = keras.tree.map_structure(lambda _: 0, arguments)
    states = custom_gradient(forward, backward)(*keras.tree.flatten(arguments))
    return keras.tree.pack_sequence_as(arguments[1], states)


def _states(
    loop: TimeLoop,
    forward: Callable[..., tuple[Structure, Structure]],
    inputs: Structure,
    initial_state: Structure,
    parameters: Structure,
    masks: list[Tensor],
) -> tuple[Structure, Structure]:
    """Runs all steps. Returns the sequences of the states and of the tensors that `forward` saved."""

    def body(state: Structure, inputs_t: Structure, *masks_t: Tensor) -> tuple[Structure, Structure]:
        new, saved = forward(inputs_t, state, parameters)
        keras.tree.assert_same_structure(state, new)
        new = keras.tree.map_structure(functools.partial(_after_step, masks_t), new, state)
        return new, (new, saved)

    return loop.scan(body, initial_state, loop.split(inputs), *map(loop.split, masks))[1]


def _after_step(masks_t: Sequence[Tensor], new: Tensor, old: Tensor) -> Tensor:
    """Returns a leaf of the state after a step, which keeps its dtype and, where the step is masked, its value."""
    new = _cast(new, old.dtype)
    return _where(masks_t[0], new, old) if masks_t else new


def _gradients(
    loop: TimeLoop,
    step: RecurrentStep,
    inputs: Structure,
    initial_state: Structure,
    parameters: Structure,
    masks: list[Tensor],
    states: Structure,
    saved: Structure,
    upstream: list[Tensor],
) -> list[Tensor | None]:
    """Computes the gradients of all arguments, as a flat list of their leaves."""
    upstream = [gradient for gradient in upstream if gradient is not None]
    of_inputs, of_state = _FloatLeaves(inputs), _FloatLeaves(initial_state)
    zeros = [ops.zeros_like(leaf) for leaf in of_state.taken(initial_state)]

    def body(
        d_state: list[Tensor], d_states_t: list[Tensor], state: Structure, saved: Structure, *masks_t: Tensor
    ) -> tuple[list[Tensor], Structure]:
        d_step = d_new = [d + upstream for d, upstream in zip(d_state, d_states_t, strict=True)]
        if masks_t:
            d_step = [_where(masks_t[0], d, zero) for d, zero in zip(d_new, zeros, strict=True)]
        d_inputs_t, d_before, factors = step.backward(of_state.put(d_step), state, saved, parameters)
        d_state = of_state.taken(d_before)
        if masks_t:
            # A masked step passes the gradient of its state on unchanged.
            d_state = [d + new - stepped for d, new, stepped in zip(d_state, d_new, d_step, strict=True)]
        d_state = [_cast(d, new.dtype) for d, new in zip(d_state, d_new, strict=True)]
        return d_state, (of_inputs.taken(d_inputs_t), factors)

    before = loop.before(initial_state, states)
    d_initial_state, (d_inputs, factors) = loop.scan(
        body, zeros, loop.split(upstream), before, saved, *map(loop.split, masks), reverse=True
    )
    return [
        *keras.tree.flatten(of_inputs.put(loop.join(d_inputs))),
        *keras.tree.flatten(of_state.put(d_initial_state)),
        *keras.tree.flatten(step.parameter_gradients(loop.stack(factors))),
        *[None] * len(masks),
    ]


class _FloatLeaves:
    """The leaves of a structure that have a float dtype; structures of gradients have `None` for the others.

    Args:
        like: structure of tensors.
    """

    def __init__(self, like: Structure) -> None:
        self._like, self._are_float = like, [is_differentiable(leaf) for leaf in keras.tree.flatten(like)]

    def taken(self, structure: Structure) -> list[Tensor]:
        """Returns these leaves of another structure."""
        leaves = zip(keras.tree.flatten(structure), self._are_float, strict=True)
        return [leaf for leaf, is_float in leaves if is_float]

    def put(self, leaves: list[Tensor]) -> Structure:
        """Makes a structure of these leaves."""
        remaining = iter(leaves)
        # Not map_structure: under PyTorch it does not visit the keys of a dict in the order of flatten.
        flat = [next(remaining) if is_float else None for is_float in self._are_float]
        return keras.tree.pack_sequence_as(self._like, flat)


def _cast(tensor: Tensor, dtype: object) -> Tensor:
    """Casts a tensor if it has another dtype: some of Keras's functions convert float64 to float32."""
    return tensor if tensor.dtype == dtype else ops.cast(tensor, dtype)


def _where(mask: Tensor, tensor: Tensor, other: Tensor) -> Tensor:
    """Takes the rows of `tensor` where the mask `(batch,)` is true, and those of `other` elsewhere."""
    return ops.where(mask[(..., *[None] * (len(tensor.shape) - 1))], tensor, other)
