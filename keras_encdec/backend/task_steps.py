"""Updates of further tasks between the steps of `model.fit`."""

from collections.abc import Callable, Iterator, Mapping

import keras
import numpy as np

from keras_encdec.backend.devices import backend_name
from keras_encdec.backend.replicas import Compilation, train_function_by_shape
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
    make_step = {"tensorflow": _tensorflow_step, "jax": _jax_step, "torch": _torch_step}
    take = make_step[backend_name()](model, step, compilation, begin)
    model.make_train_function()
    main = model.train_function

    def train(*arguments: Structure) -> Structure:
        for task, batch in next(updates):
            with model.task(task):
                arguments = take(task, batch, arguments)
        return main(*arguments)

    model.train_function = train


def _tensorflow_step(model: keras.Model, step: StepCompilation, compilation: Compilation, begin: Begin) -> TaskStep:
    """Takes a step of a task under TensorFlow, in a separate function for each shape of batch."""
    import tensorflow as tf

    options = {"jit_compile": step.uses_xla(model)} if step.compiled else {"reduce_retracing": True}
    steps: dict[str, Callable[..., Structure]] = {}

    def new_step() -> Callable[..., Structure]:
        return tf.function(lambda data: model.train_step(data), autograph=False, **options)

    def take(task: str, batch: NumpyBatch, arguments: tuple[Structure, ...]) -> tuple[Structure, ...]:
        tensors = {side: tf.convert_to_tensor(ids) for side, ids in batch.items()}
        if task not in steps:
            steps[task] = train_function_by_shape(new_step, begin, compilation) if step.compiled else new_step()
        steps[task](iter([tensors]) if step.compiled else tensors)
        return arguments

    return take


def _jax_step(model: keras.Model, step: StepCompilation, compilation: Compilation, begin: Begin) -> TaskStep:
    """Takes a step of a task under JAX, where steps take the values of all variables and return the new ones."""
    import jax

    steps: dict[str, Callable[..., Structure]] = {}

    def take(task: str, batch: NumpyBatch, arguments: tuple[Structure, ...]) -> tuple[Structure, ...]:
        if task not in steps:
            # A separate function for each task: JAX caches what it has compiled by function.
            def own_step(state: Structure, data: Structure) -> Structure:
                return model.train_step(state, data)

            steps[task] = jax.jit(own_step, donate_argnums=0) if step.compiled else own_step
        state, iterator = arguments
        _, state = steps[task](state, (dict(batch),))
        return state, iterator

    return take


def _torch_step(model: keras.Model, step: StepCompilation, compilation: Compilation, begin: Begin) -> TaskStep:
    """Takes a step of a task under PyTorch, which compiles nothing, but records steps on a GPU."""
    recorded = recorded_steps(model) if step.recorded else None

    def take(task: str, batch: NumpyBatch, arguments: tuple[Structure, ...]) -> tuple[Structure, ...]:
        if recorded:
            recorded((dict(batch),), task)
        else:
            model.train_step(({side: keras.ops.convert_to_tensor(ids) for side, ids in batch.items()},))
        return arguments

    return take
