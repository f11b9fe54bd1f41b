"""Tables of states on the device, read and written a batch at a time."""

import keras
from keras import ops

from keras_encdec.scoring.compiled import xla_on_cpu


def repeat(body, times, *pools):
    """Runs `body(batch, *pools)` for batch 0 to times - 1 and returns the pools."""
    if keras.backend.backend() == "torch":
        for batch in range(int(times)):
            _, *pools = body(batch, *pools)
        return pools
    return ops.while_loop(lambda batch, *_: batch < times, body, (ops.zeros((), "int32"), *pools))[1:]


def rows(table, places, always):
    """Rows of a table, fetched before they are used.

    On a CPU, XLA would fetch them number by number in the middle of the arithmetic that follows, and do
    all that without vectors. It does not look into a branch, here one that is always taken.
    """
    if not xla_on_cpu():
        return ops.take(table, places, axis=0)
    shape, dtype = (places.shape[0], table.shape[1]), table.dtype
    return ops.cond(always, lambda: ops.take(table, places, axis=0), lambda: ops.zeros(shape, dtype))


def stored(pool, start, rows):
    """The pool with some rows replaced, in place."""
    if keras.backend.backend() == "torch":
        pool[start : start + rows.shape[0]] = rows
        return pool
    # All indices of one dtype, which JAX insists on where it has 64 bits.
    return ops.slice_update(pool, (start, *[ops.zeros_like(start)] * (len(pool.shape) - 1)), ops.cast(rows, pool.dtype))
