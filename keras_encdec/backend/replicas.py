"""The devices that share the updates of a training run, in one process or several, and their random numbers."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import keras
import numpy as np

from keras_encdec.backend.devices import backend_name
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.configuration import ConfigurationError

#: A batch or a part of it: arrays "source" and "target", one row per pair.
Batch = dict[str, Tensor]

#: Shapes of the parts of a batch, such as source and target.
Shapes = tuple[tuple[int, ...], ...]

ALL = "all"


def shapes_of(batch: Structure) -> Shapes:
    """Returns the shapes of the parts of a batch, without labels and weights that are `None`."""
    return tuple(tuple(part.shape) for part in keras.tree.flatten(batch) if part is not None)


@dataclasses.dataclass
class Compilation:
    """The cost of compiling so far.

    Attributes:
        shapes: int. Number of batch shapes for which a step was compiled, or is being compiled.
        seconds: float. Time of the first step of each shape, most of it compiling; under JAX, time of tracing and
            compiling alone.
    """

    shapes: int = 0
    seconds: float = 0.0


def train_function_by_shape(
    new_step: Callable[[], Callable[[Batch], Structure]], begin: Callable[[Shapes], object], compilation: Compilation
) -> Callable[[Iterator[Batch]], Structure]:
    """Makes a training function of TensorFlow that compiles a step for each shape of batches.

    Args:
        new_step: callable that makes a step, which is compiled at its first call.
        begin: function that is called with the shapes before each compilation.
        compilation: Compilation, which counts the shapes and the seconds of their first steps.

    Returns:
        callable that takes an iterator of batches, as `keras.Model.train_function`.
    """
    steps: dict[Shapes, Callable[[Batch], Structure]] = {}

    def train(iterator: Iterator[Batch]) -> Structure:
        batch = next(iterator)
        shapes = shapes_of(batch)
        if shapes in steps:
            return steps[shapes](batch)
        compilation.shapes += 1
        begin(shapes)
        steps[shapes] = new_step()
        start = time.monotonic()
        logs = steps[shapes](batch)
        compilation.seconds += time.monotonic() - start
        return logs

    return train


class Replicas:
    """The devices of a training run. Each computes the gradient of its rows of a batch, and all apply the sum.

        g = sum over replicas r of g_r        g_r: the gradient of the part of the loss that is due to r's rows

    A batch therefore gives the same update on any number of devices, except for rounding and the numbers that dropout
    draws. The base class is a single device.

    Attributes:
        devices: int. Number of devices in all processes.
        processes: int. Number of processes.
        process: int. Number of this process, from 0.
    """

    devices: int = 1
    processes: int = 1
    process: int = 0

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.process == 0

    def building(self) -> contextlib.AbstractContextManager[object]:
        """Returns the context in which a model to train is built, compiled or loaded."""
        return contextlib.nullcontext()

    def training(self) -> contextlib.AbstractContextManager[object]:
        """Returns the context in which a model is trained and evaluated."""
        return contextlib.nullcontext()

    def alone(self) -> contextlib.AbstractContextManager[object]:
        """Returns the context in which one process uses a model in `training()` without the others."""
        return contextlib.nullcontext()

    def set_up(self, model: keras.Model, jit_compile: bool, begin: Callable[[Shapes], object]) -> Compilation | None:
        """Makes a compiled model, before its first update, divide its training and evaluation among the replicas.

        Args:
            model: compiled keras.Model.
            jit_compile: bool. Whether XLA compiles the step under TensorFlow.
            begin: see `StepCompilation.apply`.

        Returns:
            Compilation: the cost of compiling; `None` if the model is set up as for one device.
        """
        return None

    def part(self, batch: Batch) -> Batch:
        """Returns the rows of this process.

        Args:
            batch: dict of arrays of all rows. If they cannot be divided among the devices, which happens in evaluation
                only, rows without a target are added: they have the log-probability 0.
        """
        if self.devices == 1:
            return batch
        batch = _filled(batch, self.devices)
        size = len(batch["target"]) // self.processes
        return {side: rows[self.process * size :][:size] for side, rows in batch.items()}

    def wait(self) -> None:
        """Waits until all processes have called this method."""
        self.agree([])

    def agree(self, values: Sequence[float], number: int = 0) -> tuple[list[float], int]:
        """Gives all processes the same values.

        Args:
            values: list of float, those of this process.
            number: int. A number that any process may have, such as that of a signal. Defaults to `0`: none.

        Returns:
            tuple: list of float, those of the chief; int, the largest of the numbers.
        """
        if self.processes == 1:
            return list(values), number
        everywhere = self.gather(np.array([*values, number], np.float64))
        return everywhere[0, :-1].tolist(), int(everywhere[:, -1].max())

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Returns the values of all processes, an array `(processes, ...)`, from arrays of the same shape."""
        return values[None]


def check_batch_size(replicas: Replicas, batch_size: int) -> None:
    """Checks that the pairs of an update can be divided among the devices.

    Raises:
        ConfigurationError: a ValueError, if they cannot.
    """
    if batch_size % replicas.devices:
        raise ConfigurationError(
            "found %d pairs per update for %d devices, expected a multiple; change {batch_size}",
            batch_size,
            replicas.devices,
        )


def _filled(batch: Batch, multiple: int) -> Batch:
    """Adds rows with the first source and without a target until the number of rows is a multiple of `multiple`."""
    missing = -len(batch["target"]) % multiple
    if not missing:
        return batch
    added = {side: np.repeat(rows[:1], missing, axis=0) for side, rows in batch.items()}
    added["target"] = np.zeros_like(added["target"])
    return {side: np.concatenate([rows, added[side]]) for side, rows in batch.items()}


def check_number(requested: int | None, found: int, where: str) -> int:
    """Checks the requested number of devices, `None` for all, and returns the number to use."""
    if requested is not None and requested > found:
        devices = "device" if found == 1 else "devices"
        raise ConfigurationError(
            f"found %d {devices} {where}, expected %d, the number in {{devices}}; give at most %d, or {{devices}}=%s",
            found,
            requested,
            found,
            ALL,
        )
    return found if requested is None else requested


def check_all(requested: int | None, found: int) -> None:
    """Raises ConfigurationError unless all devices are requested: processes that share a run have to use them all."""
    if requested not in (None, found):
        raise ConfigurationError(
            "found {devices}=%d with %d devices in all processes, expected all of them; give {devices}=%s",
            requested,
            found,
            ALL,
        )


def generator_state(replicas: Replicas) -> dict[str, np.ndarray]:
    """Returns the states of PyTorch's own generators, which dropout without a seed draws from.

    Under the other backends `keras_encdec.layers.Dropout` saves the state of its generator itself.

    Args:
        replicas: Replicas of the training. All processes must call the function.

    Returns:
        dict of uint8 arrays: "cpu", and "cuda" if there is a GPU; those of the second process are "cpu.1" and "cuda.1".
        Empty under the other backends.
    """
    if backend_name() != "torch":
        return {}
    import torch

    states = {"cpu": torch.get_rng_state().numpy()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state().numpy()
    return {
        _of_process(kind, process): state
        for kind, here in states.items()
        for process, state in enumerate(replicas.gather(here))
    }


def set_generator_state(states: Mapping[str, np.ndarray], replicas: Replicas) -> None:
    """Restores the states that `generator_state` returned: those of this process, for the CPU and its GPU."""
    if backend_name() != "torch":
        return
    import torch

    cpu, cuda = (_of_process(kind, replicas.process) for kind in ("cpu", "cuda"))
    if cpu in states:
        torch.set_rng_state(torch.from_numpy(states[cpu]))
    if cuda in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(states[cuda]))


def _of_process(kind: str, process: int) -> str:
    return f"{kind}.{process}" if process else kind
