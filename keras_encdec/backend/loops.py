"""A loop over time: written out step by step, or compiled as a loop."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_encdec.backend.devices import name
from keras_encdec.backend.types import Structure, Tensor

#: Up to this many steps a loop is written out, so that a compiler sees every step: phrases of up to 7 words and their
#: end of sequence fit. Of more steps written out, XLA copies the sums of all later ones into the kernel of each step's
#: gradient, so that run time and compile time grow with the square of the length (`benchmarks/recurrence.py`).
WRITTEN_OUT_STEPS = 8


def time_loop(steps: int | None) -> "_WrittenOut | _Loop":
    """A loop over the time axis of tensors.

    What changes from step to step is a sequence, which has a form of its own: `split` makes one of tensors
    `(batch, time, ...)`, `join` makes those of it again.

    Args:
        steps: int. Number of steps; `None` where it is not known before the loop runs.

    Returns:
        object with the methods `split`, `join`, `stack`, `before` and `scan`.
    """
    if isinstance(steps, int) and (steps <= WRITTEN_OUT_STEPS or not _compiles()):
        return _WrittenOut(steps)
    return _LOOPS[name()](steps)


def _compiles():
    """Whether a loop is compiled as such, and not run step by step in any case."""
    if name() == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    # Outside of a compiled function JAX compiles a loop anew at each call, which is still quicker than many steps.
    return name() == "jax"


class _WrittenOut:
    """Sequences are lists of structures, one a step."""

    def __init__(self, steps) -> None:
        self.steps = steps

    def split(self, tensors):
        """A sequence, from a structure of tensors `(batch, time, ...)`."""
        leaves = [ops.unstack(leaf, self.steps, axis=1) for leaf in keras.tree.flatten(tensors)]
        return [_pack(tensors, [leaf[t] for leaf in leaves]) for t in range(self.steps)]

    def join(self, sequence):
        """A structure of tensors `(batch, time, ...)`, from a sequence."""
        return keras.tree.map_structure(lambda *leaves: ops.stack(leaves, axis=1), *sequence)

    def stack(self, sequence):
        """A structure of tensors `(time, batch, ...)`, from a sequence."""
        return keras.tree.map_structure(lambda *leaves: ops.stack(leaves, axis=0), *sequence)

    def before(self, first, sequence):
        """The sequence one step later: `first`, then all but the last."""
        return [first, *sequence[:-1]]

    def scan(self, body, carry, *sequences, reverse=False):
        """Runs `body(carry, *items) -> (carry, outputs)` at each step, `outputs` a tuple.

        Args:
            body: function of what is carried from step to step, a structure of tensors, and of each sequence's item.
            carry: structure of tensors, before the first step.
            *sequences: of `split`, of `before` or of another `scan`.
            reverse: bool. Whether to begin with the last step. Defaults to `False`.

        Returns:
            tuple: the carry after the last step, and the tuple of sequences of the outputs.
        """
        outputs = [None] * self.steps
        for t in reversed(range(self.steps)) if reverse else range(self.steps):
            carry, outputs[t] = body(carry, *(sequence[t] for sequence in sequences))
        return carry, tuple(map(list, zip(*outputs, strict=True)))


class _Loop:
    """Sequences are structures of tensors `(time, batch, ...)`."""

    def __init__(self, steps) -> None:
        self.steps = steps

    def split(self, tensors):
        return keras.tree.map_structure(_swap_batch_and_time, tensors)

    join = split

    def stack(self, sequence):
        return sequence

    def before(self, first, sequence):
        return keras.tree.map_structure(
            lambda one, others: ops.concatenate([ops.expand_dims(one, 0), others[:-1]], axis=0), first, sequence
        )


class _JAXLoop(_Loop):
    def scan(self, body, carry, *sequences, reverse=False):
        import jax

        return jax.lax.scan(lambda carry, items: body(carry, *items), carry, sequences, reverse=reverse)


class _TensorFlowLoop(_Loop):
    """`tf.while_loop` with a known number of turns, where there is one.

    XLA can then differentiate it, other than the loop of `keras.ops.scan`, which also wants all outputs to look
    like the carry.
    """

    def scan(self, body, carry, *sequences, reverse=False):
        import tensorflow as tf

        flat = keras.tree.flatten(sequences)
        steps = tf.shape(flat[0])[0] if self.steps is None else self.steps
        arrays = [
            tf.TensorArray(leaf.dtype, steps, element_shape=leaf.shape[1:], infer_shape=False).unstack(leaf)
            for leaf in flat
        ]

        def flat_body(carry_leaves, items):
            after, outputs = body(_pack(carry, carry_leaves), *_pack(sequences, items))
            structures.append(outputs)
            after = keras.tree.flatten(after)
            for leaf, before in zip(after, carry_leaves, strict=True):
                leaf.set_shape(before.shape)  # which a step may have forgotten
            return after, keras.tree.flatten(outputs)

        structures, carry_leaves = [], keras.tree.flatten(carry)
        # What a step gives is seen in a graph that never runs.
        with tf.__internal__.FuncGraph("step").as_default():
            _, specs = flat_body(carry_leaves, [tf.zeros_like(leaf[0]) for leaf in flat])
        outputs = [tf.TensorArray(x.dtype, steps, element_shape=x.shape, infer_shape=False) for x in specs]

        def turn(i, leaves, outputs):
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


_LOOPS: dict[str, Callable[..., Any]] = {"tensorflow": _TensorFlowLoop, "jax": _JAXLoop}


def _swap_batch_and_time(tensor):
    """`(batch, time, ...)` from `(time, batch, ...)`, and back."""
    # Not ops.swapaxes, which forgets the rank where TensorFlow does not know the number of steps.
    return ops.transpose(tensor, (1, 0, *range(2, len(tensor.shape))))


def _pack(structure, leaves):
    return keras.tree.pack_sequence_as(structure, list(leaves))


def counted_loop(body: Callable[..., Structure], times: int | Tensor, *carried: Structure) -> Structure:
    """Runs `body(i, *carried) -> carried` for i = 0 .. times - 1.

    Args:
        body: function of an int32 scalar and of what is carried from turn to turn, structures of tensors; it
            returns the same structures, of the same shapes and dtypes.
        times: int32 scalar.
        *carried: structures of tensors, before the first turn.

    Returns:
        list of the structures after the last turn.
    """
    if name() == "torch":
        for i in range(int(times)):
            carried = body(i, *carried)
        return list(carried)
    structure = keras.tree.map_structure(lambda _: 0, list(carried))

    def turn(i, *leaves):
        after = body(i, *keras.tree.pack_sequence_as(structure, list(leaves)))
        return (i + 1, *keras.tree.flatten(list(after)))

    first = (ops.zeros((), "int32"), *keras.tree.flatten(list(carried)))
    last = ops.while_loop(lambda i, *_: i < times, turn, first)[1:]
    return keras.tree.pack_sequence_as(structure, list(last))
