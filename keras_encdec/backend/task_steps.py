"""Updates of further tasks between the steps of `model.fit`."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from keras_encdec.backend.devices import name
from keras_encdec.backend.replicas import Compilation, Shapes
from keras_encdec.backend.training_step import StepCompilation

Batch = Mapping[str, np.ndarray]
Begin = Callable[[Shapes], object]
#: An update of a task, which is given by its name.
TaskUpdate = tuple[str, Batch]


def update_tasks_between(
    model: Any,
    updates: Iterator[list[TaskUpdate]],
    step: StepCompilation,
    compilation: Compilation,
    begin: Begin = lambda shapes: None,
) -> None:
    """Makes each step of `model.fit` begin with updates of other tasks than the main task.

    Callbacks see the steps of the main task only. Each task has a compiled step of its own, for each shape of its
    batches where `step` compiles by shape.

    Args:
        model: compiled `MultiTaskModel`, whose step `step.apply` has set up.
        updates: iterator of the updates before each step of the main task, lists that may be empty.
        step: StepCompilation.
        compilation: Compilation, updated when a step of a task is compiled.
        begin: see `StepCompilation.apply`. Optional.
    """
    make_step: dict[str, Any] = {"tensorflow": _TensorFlowStep, "jax": _JaxStep, "torch": _TorchStep}
    take = make_step[name()](model, step, compilation, begin)
    model.make_train_function()
    main = model.train_function

    def train(*arguments: Any) -> Any:
        for task, batch in next(updates):
            with model.task(task):
                arguments = take(task, batch, arguments)
        return main(*arguments)

    model.train_function = train


class _TensorFlowStep:
    """Takes a step of a task under TensorFlow, in a function of its own for each shape of batch."""

    def __init__(self, model: Any, step: StepCompilation, compilation: Compilation, begin: Begin) -> None:
        self._model, self._compilation, self._begin = model, compilation, begin
        self._compiles_by_shape, self._jit_compile = step.compiled, step.uses_xla(model)
        self._functions: dict[tuple[str, Shapes], Callable[..., Any]] = {}

    def __call__(self, task: str, batch: Batch, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        import tensorflow as tf

        tensors = {side: tf.convert_to_tensor(ids) for side, ids in batch.items()}
        shapes: Shapes = tuple(tuple(part.shape) for part in tensors.values()) if self._compiles_by_shape else ()
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
    """Takes a step of a task under JAX, which passes the values of all variables on."""

    def __init__(self, model: Any, step: StepCompilation, compilation: Compilation, begin: Begin) -> None:
        self._model, self._compiled = model, step.compiled
        self._steps: dict[str, Callable[..., Any]] = {}

    def __call__(self, task: str, batch: Batch, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        import jax

        if task not in self._steps:
            # A function of its own: JAX keeps what it has compiled by the function.
            def own_step(state: Any, data: Any) -> Any:
                return self._model.train_step(state, data)

            self._steps[task] = jax.jit(own_step, donate_argnums=0) if self._compiled else own_step
        state, iterator = arguments
        _, state = self._steps[task](state, (dict(batch),))
        return state, iterator


class _TorchStep:
    """Takes a step of a task under PyTorch, which compiles nothing."""

    def __init__(self, model: Any, step: StepCompilation, compilation: Compilation, begin: Begin) -> None:
        self._model = model

    def __call__(self, task: str, batch: Batch, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        tensors = {side: keras.ops.convert_to_tensor(ids) for side, ids in batch.items()}
        self._model.train_step((tensors,))
        return arguments
