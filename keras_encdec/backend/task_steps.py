"""Updates of further tasks between the steps of `model.fit`."""

import time
from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np

from keras_encdec.backend.devices import backend_name
from keras_encdec.backend.replicas import Compilation, Shapes, shapes_of
from keras_encdec.backend.training_step import Begin, StepCompilation, recorded_steps
from keras_encdec.backend.types import Structure

#: A batch of int32 arrays by the name of its part, such as "source" and "target".
NumpyBatch = Mapping[str, np.ndarray]
#: An update of a task: the name of the task, and a batch.
TaskUpdate = tuple[str, NumpyBatch]
#: Makes one update of a task, from its name, a batch and the arguments of `model.train_function` (under JAX, among them
#: the values of all variables). It returns these arguments as they are after the update.
TaskStep = Callable[[str, NumpyBatch, tuple[Structure, ...]], tuple[Structure, ...]]


def update_tasks_between(
    model: keras.Model,
    updates: Iterator[list[TaskUpdate]],
    step: StepCompilation,
    compilation: Compilation,
    begin: Begin = lambda shapes: None,
) -> None:
    """Makes each step of `model.fit` begin with updates of tasks other than the main task.

    Callbacks see only the steps of the main task. A separate step is compiled for each task and, if `step` compiles by
    shape, for each shape of the task's batches.

    Args:
        model: compiled `MultiTaskModel`, whose step `step.apply` has set up.
        updates: iterator of the updates before each step of the main task, lists that may be empty.
        step: StepCompilation.
        compilation: Compilation, updated when a step of a task is compiled.
        begin: see `StepCompilation.apply`. Optional.
    """
    make_step: dict[str, Callable[..., TaskStep]] = {
        "tensorflow": _TensorFlowStep,
        "jax": _JaxStep,
        "torch": _TorchStep,
    }
    take = make_step[backend_name()](model, step, compilation, begin)
    model.make_train_function()
    main = model.train_function

    def train(*arguments: Structure) -> Structure:
        for task, batch in next(updates):
            with model.task(task):
                arguments = take(task, batch, arguments)
        return main(*arguments)

    model.train_function = train


class _TensorFlowStep:
    """Takes a step of a task under TensorFlow, in a separate function for each shape of batch."""

    def __init__(self, model: keras.Model, step: StepCompilation, compilation: Compilation, begin: Begin) -> None:
        self._model, self._compilation, self._begin = model, compilation, begin
        self._compiles_by_shape, self._jit_compile = step.compiled, step.uses_xla(model)
        self._functions: dict[tuple[str, Shapes], Callable[..., Structure]] = {}

    def __call__(self, task: str, batch: NumpyBatch, arguments: tuple[Structure, ...]) -> tuple[Structure, ...]:
        import tensorflow as tf

        tensors = {side: tf.convert_to_tensor(ids) for side, ids in batch.items()}
        shapes: Shapes = shapes_of(tensors) if self._compiles_by_shape else ()
        if (task, shapes) in self._functions:
            self._functions[task, shapes](tensors)
            return arguments
        options = {"jit_compile": self._jit_compile} if self._compiles_by_shape else {"reduce_retracing": True}
        function = tf.function(lambda data: self._model.train_step(data), autograph=False, **options)
        self._functions[task, shapes] = function
        if self._compiles_by_shape:
            self._begin(shapes)
        start = time.monotonic()
        function(tensors)
        if self._compiles_by_shape:
            self._compilation.seconds += time.monotonic() - start
            self._compilation.shapes += 1
        return arguments


class _JaxStep:
    """Takes a step of a task under JAX, where steps take the values of all variables and return the new ones."""

    def __init__(self, model: keras.Model, step: StepCompilation, compilation: Compilation, begin: Begin) -> None:
        self._model, self._compiled = model, step.compiled
        self._steps: dict[str, Callable[..., Structure]] = {}

    def __call__(self, task: str, batch: NumpyBatch, arguments: tuple[Structure, ...]) -> tuple[Structure, ...]:
        import jax

        if task not in self._steps:
            # A separate function for each task: JAX caches what it has compiled by function.
            def own_step(state: Structure, data: Structure) -> Structure:
                return self._model.train_step(state, data)

            self._steps[task] = jax.jit(own_step, donate_argnums=0) if self._compiled else own_step
        state, iterator = arguments
        _, state = self._steps[task](state, (dict(batch),))
        return state, iterator


class _TorchStep:
    """Takes a step of a task under PyTorch, which compiles nothing, but records steps on a GPU."""

    def __init__(self, model: keras.Model, step: StepCompilation, compilation: Compilation, begin: Begin) -> None:
        self._model, self._recorded = model, recorded_steps(model) if step.recorded else None

    def __call__(self, task: str, batch: NumpyBatch, arguments: tuple[Structure, ...]) -> tuple[Structure, ...]:
        if self._recorded:
            self._recorded((dict(batch),), task)
        else:
            self._model.train_step(({side: keras.ops.convert_to_tensor(ids) for side, ids in batch.items()},))
        return arguments
