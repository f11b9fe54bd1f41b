"""Loops over time, unrolled or compiled as a loop, and loops with a counter."""

import gc
from collections.abc import Callable, Sequence
from typing import TypeAlias

import keras
from keras import ops

from keras_encdec.backend.devices import backend_name
from keras_encdec.backend.types import Structure, Tensor

#: Loops of up to 8 steps are unrolled, so that a compiler sees every step: a phrase of 7 words and its end of sequence.
#: With more steps unrolled, XLA copies the sums of all later steps into the kernel of each step's gradient: run time
#: and compile time grow with the square of the length (`benchmarks/recurrence.py`).
UNROLLED_STEPS = 8


# One step of a loop: a function of the carry and the step's item of each sequence that returns the new carry and the
# outputs.
Step: TypeAlias = Callable[..., tuple[Structure, Structure]]
# A loop over the time axis of tensors, which has its own form of a sequence, see `time_loop`.
TimeLoop: TypeAlias = "_Unrolled | _JAXLoop | _TensorFlowLoop"


def time_loop(steps: int | None) -> TimeLoop:
    """Chooses a loop over the time axis of tensors.

    The loop has its own form of a sequence: `split` turns tensors `(batch, time, ...)` into a sequence, and `join`
    turns a sequence into tensors `(batch, time, ...)`.

    Args:
        steps: int. Number of steps; `None` if it is known only when the loop runs.
    """
    if isinstance(steps, int) and (steps <= UNROLLED_STEPS or not _compiles()):
        return _Unrolled(steps)
    return _LOOPS[backend_name()](steps)


def _compiles() -> bool:
    """Returns whether the backend can compile a loop, instead of running it step by step."""
    if backend_name() == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    # Outside a compiled function JAX compiles a loop at each call, which is still faster than many single steps.
    return backend_name() == "jax"


class _Unrolled:
    """An unrolled loop: a sequence is a list of structures, one per step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def split(self, tensors: Structure) -> list[Structure]:
        """Makes a sequence from a structure of tensors `(batch, time, ...)`."""
        leaves = [ops.unstack(leaf, self.steps, axis=1) for leaf in keras.tree.flatten(tensors)]
        return [_pack(tensors, [leaf[t] for leaf in leaves]) for t in range(self.steps)]

    def join(self, sequence: list[Structure]) -> Structure:
        """Makes a structure of tensors `(batch, time, ...)` from a sequence."""
        return keras.tree.map_structure(lambda *leaves: ops.stack(leaves, axis=1), *sequence)

    def stack(self, sequence: list[Structure]) -> Structure:
        """Makes a structure of tensors `(time, batch, ...)` from a sequence."""
        return keras.tree.map_structure(lambda *leaves: ops.stack(leaves, axis=0), *sequence)

    def before(self, first: Structure, sequence: list[Structure]) -> list[Structure]:
        """Shifts a sequence by one step: returns `first`, then all items but the last."""
        return [first, *sequence[:-1]]

    def scan(
        self, body: Step, carry: Structure, *sequences: Structure, reverse: bool = False
    ) -> tuple[Structure, Structure]:
        """Runs `body(carry, *items) -> (carry, outputs)` at each step, `outputs` a tuple.

        Args:
            body: function of the carry, a structure of tensors, and of the step's item of each sequence.
            carry: structure of tensors, before the first step.
            *sequences: results of `split`, of `before` or of another `scan`.
            reverse: bool. Whether to begin with the last step. Defaults to `False`.

        Returns:
            tuple: the carry after the last step, and the tuple of sequences of the outputs.
        """
        outputs: list[Structure] = [None] * self.steps
        for t in reversed(range(self.steps)) if reverse else range(self.steps):
            carry, outputs[t] = body(carry, *(sequence[t] for sequence in sequences))
        return carry, tuple(map(list, zip(*outputs, strict=True)))


class _Loop:
    """A compiled loop: a sequence is a structure of tensors `(time, batch, ...)`."""

    def __init__(self, steps: int | None) -> None:
        self.steps = steps

    def split(self, tensors: Structure) -> Structure:
        return keras.tree.map_structure(_swap_batch_and_time, tensors)

    join = split

    def stack(self, sequence: Structure) -> Structure:
        return sequence

    def before(self, first: Structure, sequence: Structure) -> Structure:
        return keras.tree.map_structure(
            lambda start, steps: ops.concatenate([ops.expand_dims(start, 0), steps[:-1]], axis=0), first, sequence
        )


class _JAXLoop(_Loop):
    def scan(
        self, body: Step, carry: Structure, *sequences: Structure, reverse: bool = False
    ) -> tuple[Structure, Structure]:
        import jax

        after: tuple[Structure, Structure] = jax.lax.scan(
            lambda carry, items: body(carry, *items), carry, sequences, reverse=reverse
        )
        return after


class _TensorFlowLoop(_Loop):
    """`tf.while_loop`, with the number of its iterations if that is known.

    XLA can then differentiate the loop. It cannot differentiate the loop of `keras.ops.scan`, which also requires
    outputs with the structure of the carry.
    """

    def scan(
        self, body: Step, carry: Structure, *sequences: Structure, reverse: bool = False
    ) -> tuple[Structure, Structure]:
        import tensorflow as tf

        flat = keras.tree.flatten(sequences)
        steps = tf.shape(flat[0])[0] if self.steps is None else self.steps
        arrays = [
            tf.TensorArray(leaf.dtype, steps, element_shape=leaf.shape[1:], infer_shape=False).unstack(leaf)
            for leaf in flat
        ]

        def flat_body(carry_leaves: list[Tensor], items: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
            after, outputs = body(_pack(carry, carry_leaves), *_pack(sequences, items))
            structures.append(outputs)
            after = keras.tree.flatten(after)
            for leaf, before in zip(after, carry_leaves, strict=True):
                leaf.set_shape(before.shape)  # a step may have lost the static shape
            return after, keras.tree.flatten(outputs)

        structures: list[Structure] = []
        carry_leaves = keras.tree.flatten(carry)
        # A graph that never runs shows the shapes and dtypes of a step's outputs.
        with tf.__internal__.FuncGraph("step").as_default():
            _, specs = flat_body(carry_leaves, [tf.zeros_like(leaf[0]) for leaf in flat])
        outputs = [tf.TensorArray(x.dtype, steps, element_shape=x.shape, infer_shape=False) for x in specs]

        def turn(
            i: Tensor, leaves: list[Tensor], outputs: list[Structure]
        ) -> tuple[Tensor, list[Tensor], list[Structure]]:
            t = steps - 1 - i if reverse else i
            leaves, values = flat_body(leaves, [array.read(t) for array in arrays])
            return i + 1, leaves, [array.write(t, x) for array, x in zip(outputs, values, strict=True)]

        _, leaves, outputs = tf.while_loop(
            lambda i, *_: i < steps, turn, (0, carry_leaves, outputs), maximum_iterations=self.steps
        )
        stacked = [array.stack() for array in outputs]
        for tensor, spec in zip(stacked, specs, strict=True):
            tensor.set_shape((self.steps, *spec.shape))
        return _pack(carry, leaves), _pack(structures[0], stacked)


_LOOPS: dict[str, Callable[[int | None], TimeLoop]] = {"tensorflow": _TensorFlowLoop, "jax": _JAXLoop}


def _swap_batch_and_time(tensor: Tensor) -> Tensor:
    """Turns `(batch, time, ...)` into `(time, batch, ...)`, and back."""
    # ops.swapaxes would lose the rank where TensorFlow does not know the number of steps.
    return ops.transpose(tensor, (1, 0, *range(2, len(tensor.shape))))


def _pack(structure: Structure, leaves: Sequence[Tensor]) -> Structure:
    return keras.tree.pack_sequence_as(structure, list(leaves))


def counted_loop(body: Callable[..., Structure], times: int | Tensor, *carried: Structure) -> Structure:
    """Runs `body(i, *carried) -> carried` for i = 0 .. times - 1.

    Args:
        body: function of an int32 scalar and of the carried structures of tensors; it returns the same structures, with
            the same shapes and dtypes.
        times: int32 scalar.
        *carried: structures of tensors, before the first iteration.

    Returns:
        list of the structures after the last iteration.
    """
    if backend_name() == "torch":
        for i in range(int(times)):
            carried = body(i, *carried)
            gc.collect(0)  # as after a compiled call: cycles hold the tensors of each step, gigabytes in a long loop
        return list(carried)
    structure = keras.tree.map_structure(lambda _: 0, list(carried))

    def turn(i: Tensor, *leaves: Tensor) -> tuple[Tensor, ...]:
        after = body(i, *keras.tree.pack_sequence_as(structure, list(leaves)))
        return (i + 1, *keras.tree.flatten(list(after)))

    first = (ops.zeros((), "int32"), *keras.tree.flatten(list(carried)))
    last = ops.while_loop(lambda i, *_: i < times, turn, first)[1:]
    return keras.tree.pack_sequence_as(structure, list(last))
