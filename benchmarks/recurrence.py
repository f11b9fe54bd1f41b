"""Times the training of a recurrence, with its hand-written gradient and with automatic differentiation.

    KERAS_BACKEND=jax python benchmarks/recurrence.py [--units 1000] [--batch 64] [--steps 8 40] [--repeat 10]

For each cell and number of steps, a compiled function (by XLA; PyTorch runs step by step) computes the states and all
gradients, alternately with the cell's `RecurrentStep` and with the same step as a plain function. The ratio is the time
of automatic differentiation over that of the hand-written gradient: above 1.03, the latter is worth keeping.

Under PyTorch, an LSTM is also timed as `LSTMCell.run` computes it, in one operation where that is likely to be faster,
and step by step. A ratio of 1.00 means that `run` went step by step, too.
"""

import argparse
import time

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.layers import ContextGRUCell, GRUCell, LSTMCell, RNNCell, run_recurrence

CELLS = {
    "gru": GRUCell,
    "gru, reset after": lambda units: GRUCell(units, reset_after=True),
    "context gru": ContextGRUCell,
    "lstm": LSTMCell,
    "rnn": RNNCell,
}


def with_gradients(function, arguments):
    """Returns a compiled function without arguments that waits for the gradients of the sum of `function`'s outputs."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tensors = [tf.constant(argument) for argument in arguments]

        @tf.function(jit_compile=True, autograph=False)
        def gradients(*tensors):
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                total = function(*tensors)
            return tape.gradient(total, tensors)

        return lambda: gradients(*tensors)[0].numpy()
    if backend == "jax":
        import jax

        tensors = [jax.numpy.asarray(argument) for argument in arguments]
        gradients = jax.jit(jax.grad(function, argnums=tuple(range(len(tensors)))))
        return lambda: jax.block_until_ready(gradients(*tensors))
    import torch

    tensors = [torch.tensor(argument, requires_grad=True) for argument in arguments]
    return lambda: torch.autograd.grad(function(*tensors), tensors)[0].cpu()


def recurrence(name, units, batch, steps):
    """Returns a cell, and arrays: inputs, state and parameters of its step."""
    rng = np.random.default_rng(0)
    cell = CELLS[name](units)
    cell.build((None, units))
    shapes = [tuple(p.shape) for p in parameters_of(cell, batch)]
    sizes = [(batch, steps, cell.gates * units), *[(batch, width) for width in cell.state_widths.values()], *shapes]
    return cell, [rng.normal(0, 0.03, size).astype("float32") for size in sizes]


def parameters_of(cell, batch):
    """Returns the parameters of the cell's step."""
    if isinstance(cell, ContextGRUCell):
        return cell.context_parameters(ops.zeros((batch, 3 * cell.units)))
    return cell.parameters()


def lstms(units, batch, steps):
    """Returns functions that compute an LSTM and all its gradients under PyTorch: by `run`, and step by step."""
    import torch

    keep_freed_memory()  # as all commands do
    cell = LSTMCell(units)
    cell.build((None, units))
    inputs = torch.tensor(np.random.default_rng(0).normal(size=(batch, steps, units)).astype("float32"))
    tensors = [inputs.requires_grad_(), *(weight.value for weight in cell.weights)]

    def gradients(run):
        outputs, _ = run(inputs, cell.initial_state(batch))
        return torch.autograd.grad(outputs.square().sum(), tensors)

    def step_by_step(inputs, state):
        return cell.run_projected(cell.project_inputs(inputs), state)

    return [lambda: gradients(cell.run), lambda: gradients(step_by_step)]


def seconds(calls, repeat):
    """Returns the minimum and median seconds of each call; the calls alternate."""
    for call in calls:
        call()
    times = np.zeros((repeat, len(calls)))
    for row in times:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            row[i] = time.perf_counter() - start
    return times.min(axis=0), np.median(times, axis=0)


def main():
    """Measures each cell and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, nargs="+", default=[8, 40])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    options = parser.parse_args()
    print(f"{keras.backend.backend()}: forward and gradients, least and (median) milliseconds")
    for steps in options.steps:
        for name in options.cells:
            cell, arguments = recurrence(name, options.units, options.batch, steps)

            def total(step, inputs, *others, cell=cell):
                widths = cell.state_widths
                state = dict(zip(widths, others, strict=False))
                states = run_recurrence(step, inputs, state, list(others[len(widths) :]))
                # Every state has its own gradient, as with a readout above the recurrence.
                return sum(ops.sum(ops.square(state)) for state in states.values())

            calls = [
                with_gradients(lambda *tensors, step=step: total(step, *tensors), arguments)
                for step in (cell.step, lambda *now, cell=cell: cell.step(*now))
            ]
            show(name, steps, ("hand-written", "automatic"), seconds(calls, options.repeat))
        if keras.backend.backend() == "torch" and "lstm" in options.cells:
            times = seconds(lstms(options.units, options.batch, steps), options.repeat)
            show("lstm with inputs", steps, ("as it is run", "step by step"), times)


def show(name, steps, ways, times):
    """Prints the times of two ways, and their ratio."""
    least, median = 1000 * np.array(times)
    print(
        f"{name:18}{steps:4} steps   {ways[0]} {least[0]:7.1f} ({median[0]:7.1f})   "
        f"{ways[1]} {least[1]:7.1f} ({median[1]:7.1f})   ratio {least[1] / least[0]:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
