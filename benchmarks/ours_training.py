"""Trains a model of this package for the benchmarks, as `encdec-train` does."""

import itertools
import time

from keras_encdec.backend.training_step import StepCompilation, prepare_process_for_training, training_stream


def trained(model, optimizer, batches, count):
    """Trains on batches of one shape, in a cycle: first on each once, which compiles, then for `count` steps.

    Returns:
        tuple: the mean loss of these steps, and the seconds that they took.
    """
    prepare_process_for_training()
    compilation = StepCompilation("auto")
    model.compile(optimizer, reduction="mean", jit_compile=compilation.jit_compile)
    compilation.apply(model)

    def steps(count):
        stream = training_stream(lambda: itertools.cycle(batches))
        start = time.perf_counter()
        history = model.fit(stream, steps_per_epoch=count, verbose=0).history
        return history["loss"][0], time.perf_counter() - start

    steps(len(batches))
    return steps(count)
