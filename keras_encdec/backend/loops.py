"""A loop whose number of turns is known when it runs, inside a compiled call."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_encdec.backend.devices import name


def counted_loop(body: Callable[..., Any], times: Any, *carried: Any) -> Any:
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
