"""Which batch sizes are worth computing."""

from keras_encdec.backend.devices import name


def reduced_batch_size(size: int, needed: int, minimum: int) -> int:
    """The size that a batch is cut down to when only a part of its rows is needed any more.

    It is halved, again and again: fewer sizes are less to compile. Where nothing is compiled, rows are dropped as
    soon as they are an eighth. `benchmarks/decoding.py` shows what it is worth ("rows computed a token").

    Args:
        size: int. Rows of the batch.
        needed: int. Rows that are needed.
        minimum: int. Smaller batches take no less time.

    Returns:
        int, at least `needed`; `size` where cutting down is not worth while.
    """
    reduced = size
    if name() == "torch" and needed <= size * 7 // 8:
        reduced = needed
    while needed <= reduced // 2 >= minimum:
        reduced //= 2
    return reduced
