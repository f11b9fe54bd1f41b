"""Compiles the training step for each backend, and feeds it batches."""

import importlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import keras

from keras_encdec.backend.devices import backend_name, keep_tensorflow_off_the_gpu, on_cpu, torch_on_cuda, xla_on_cpu
from keras_encdec.backend.replicas import Compilation, Replicas, Shapes, shapes_of, train_function_by_shape
from keras_encdec.backend.startup import keep_freed_memory
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.data.pairs import tf_dataset

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_encdec.backend.cuda_graphs import RecordedSteps

#: Called with the shapes of the parts of a batch before a step is compiled for them.
Begin = Callable[[Shapes], object]
# With fewer weights, choosing the products takes PyTorch longer than oneDNN saves (`benchmarks/run.py`, training).
MIN_WEIGHTS = 1_000_000


def prepare_process_for_training() -> None:
    """Changes settings of the process that training needs or that make it faster; may be called repeatedly."""
    keep_tensorflow_off_the_gpu()
    keep_freed_memory()


def portable_compile_config(config: dict[str, object]) -> dict[str, object]:
    """Changes the saved arguments of `compile` so that every backend can read them.

    A model that was compiled under PyTorch names Keras's PyTorch optimizers, which no other backend can run. An
    optimizer may contain others, such as one that scales the loss.
    """

    def portable(value: object) -> object:
        if not isinstance(value, dict):
            return value
        ported = {name: portable(part) for name, part in value.items()}
        if ".torch.optimizers." in str(ported.get("module")):
            ported["module"] = "keras.optimizers"
        return ported

    return {**config, "optimizer": portable(config.get("optimizer"))}


def sync_training_state(model: keras.Model) -> None:
    """Updates the variables of a model within `fit`, where JAX keeps their current values elsewhere."""
    if backend_name() == "jax":
        model.jax_state_sync()


class StepCompilation:
    """Whether and how XLA compiles a training step.

    Args:
        jit_compile: str. "true", "false", or "auto" for the faster choice on the backend.

    Attributes:
        compiled: bool. Whether the step is compiled, or recorded on a GPU, for each shape of batch, so that batches
            should have few shapes.
        recorded: bool. Whether the step is recorded: under PyTorch on a GPU, see `cuda_graphs.RecordedSteps`.
        jit_compile: bool. The argument of `model.compile`. It is false under TensorFlow, where `apply` compiles the
            training step by shape and evaluation is not compiled.
    """

    def __init__(self, jit_compile: str) -> None:
        self._always = jit_compile == "true"
        self.recorded = jit_compile == "auto" and torch_on_cuda()
        # PyTorch has no XLA.
        self.compiled = self.recorded or backend_name() != "torch" if jit_compile == "auto" else self._always
        self._by_shape = self.compiled and backend_name() == "tensorflow"
        self.jit_compile = self.compiled and not self._by_shape and not self.recorded

    def apply(
        self,
        model: keras.Model,
        begin: Begin = lambda shapes: None,
        replicas: Replicas | None = None,
    ) -> Compilation:
        """Sets up the step of a compiled `TranslationModel`.

        Args:
            model: TranslationModel.
            begin: function that is called with the shapes of the parts of a batch before the step is compiled for them.
                Defaults to one that does nothing.
            replicas: Replicas that share the step. Defaults to one device.

        Returns:
            Compilation: the cost of compiling, updated during training.
        """
        by_xla = self._by_shape and self.uses_xla(model)
        if shared := (replicas or Replicas()).set_up(model, by_xla, begin):
            return shared
        if self.recorded:
            steps = recorded_steps(model)
            model.make_train_function()
            model.train_function = lambda data: steps(data[0])
        elif backend_name() == "torch" and not self.compiled and on_cpu():
            _speed_up_torch(model)
        if self.compiled and backend_name() == "jax":
            return _announced_by_jax(model, begin)
        return compile_by_shape(model, by_xla, begin) if self._by_shape else Compilation()

    def uses_xla(self, model: keras.Model) -> bool:
        """Returns whether XLA compiles the whole step of a `TranslationModel` under TensorFlow."""
        # On a CPU, XLA multiplies bfloat16 in float32; TensorFlow does not. Even in float32, TensorFlow's products are
        # faster for a model without a recurrence, where XLA has nothing to fuse (`benchmarks/ngrams.py`, train).
        without_recurrence = model.decoder.context_length is not None
        slower = xla_on_cpu() and (model.compute_dtype == "bfloat16" or without_recurrence)
        return self._always or not slower


def recorded_steps(model: keras.Model) -> "RecordedSteps":
    """Makes the steps of a compiled `TranslationModel` that are recorded on a GPU under PyTorch."""
    from keras_encdec.backend.cuda_graphs import RecordedSteps

    return RecordedSteps(model.train_step)


def _speed_up_torch(model: keras.Model) -> None:
    """Makes a compiled model train faster under PyTorch on a CPU; `benchmarks/run.py` (training) measures the benefit.

    The optimizer updates in few passes, and oneDNN computes the products of a model with many weights.
    """
    from keras_encdec.backend.torch_products import onednn_matmul
    from keras_encdec.backend.torch_updates import update_in_few_passes

    update_in_few_passes(model.optimizer)
    weights = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    if weights < MIN_WEIGHTS or model.compute_dtype != "float32":
        return

    def with_onednn(step: Callable[[Structure], Structure]) -> Callable[[Structure], Structure]:
        def call(data: Structure) -> Structure:
            with onednn_matmul():
                return step(data)

        return call

    model.train_step, model.test_step = with_onednn(model.train_step), with_onednn(model.test_step)


# The cost of compiling. A listener, which is registered with JAX once, adds to it.
_jax_compilations: list[Compilation] = []


def _announced_by_jax(model: keras.Model, begin: Begin) -> Compilation:
    """Makes a model's training step call `begin` before it is compiled, and counts all that JAX compiles from now on.

    JAX runs the Python code of a step only to trace it, before it compiles the step for a new shape.
    """
    if not _jax_compilations:
        importlib.import_module("jax").monitoring.register_event_duration_secs_listener(_add_compilation)
    compilation = Compilation()
    _jax_compilations[:] = [compilation]
    traced: set[tuple[int, int, Shapes]] = set()
    step = model.train_step

    def announced_step(state: Structure, data: Structure) -> Structure:
        shapes = shapes_of(data)
        key = id(model.encoder), id(model.decoder), shapes
        if key not in traced:  # JAX may trace a shape again, as when the state has moved to its device
            traced.add(key)
            compilation.shapes += 1
            begin(shapes)
        start = time.monotonic()
        result = step(state, data)
        compilation.seconds += time.monotonic() - start  # tracing, which the listener does not count
        return result

    model.train_step = announced_step
    return compilation


def _add_compilation(event: str, seconds: float, **_: object) -> None:
    if event.endswith(("/backend_compile_duration", "/jaxpr_to_mlir_module_duration")):
        _jax_compilations[0].seconds += seconds


def compile_by_shape(model: keras.Model, jit_compile: bool = True, begin: Begin = lambda shapes: None) -> Compilation:
    """Makes `model.fit` compile its step for each shape of batch, with every length known.

    Keras traces one step for all batches of a `tf.data` pipeline. The number of time steps is then unknown, and XLA
    cannot differentiate a loop of unknown length. Here the batch is fetched first and the step is traced for its shape,
    so that loops over phrases are unrolled and fused. Batches should have few shapes. It supports one device and one
    step per execution.

    Args:
        model: compiled `keras.Model` under the TensorFlow backend.
        jit_compile: bool. Whether XLA compiles the whole step, or only the optimizer, which then makes one pass over
            the weights instead of many. Defaults to `True`.
        begin: see `StepCompilation.apply`. Optional.

    Returns:
        Compilation, updated during training.
    """
    import tensorflow as tf

    compilation = Compilation()
    if not jit_compile and getattr(model, "updates_all_weights", True):
        _compile_optimizer(model)

    def new_step() -> Callable[..., Structure]:
        step = tf.function(model.train_step, jit_compile=jit_compile, autograph=False)
        step._omit_frequent_tracing_warning = True  # a step for each shape is intended, but looks like a mistake
        return step

    model.make_train_function()
    model.train_function = train_function_by_shape(new_step, begin, compilation)
    return compilation


def _compile_optimizer(model: keras.Model) -> None:
    import tensorflow as tf

    optimizer, variables = model.optimizer, model.trainable_variables
    optimizer.build(variables)
    apply = optimizer.apply_gradients

    @tf.function(jit_compile=True, autograph=False)
    def compiled(gradients: list[Tensor]) -> None:
        apply(zip(gradients, variables, strict=True))

    optimizer.apply_gradients = lambda pairs: compiled([tf.convert_to_tensor(gradient) for gradient, _ in pairs])


def training_stream(
    make_batches: Callable[[], Iterable[dict[str, Tensor]]],
) -> "tf.data.Dataset | Iterator[tuple[dict[str, Tensor]]]":
    """Makes an endless stream of batches for `model.fit`.

    Args:
        make_batches: callable without arguments that returns an iterable of dicts "source" and "target", int32 arrays.
    """
    if backend_name() == "tensorflow":
        return tf_dataset(make_batches)
    return ((batch,) for batch in make_batches())


def evaluation_batches(batches: list[dict[str, Tensor]]) -> "tf.data.Dataset | keras.utils.PyDataset":
    """Makes a set of batches, for `model.evaluate` and for validation in `model.fit`.

    Args:
        batches: list of dicts "source" and "target", int32 arrays.
    """
    if backend_name() != "tensorflow":
        return _BatchList(batches)
    import tensorflow as tf

    # Without the number of batches, Keras warns that the data ran out.
    return tf_dataset(lambda: batches).apply(tf.data.experimental.assert_cardinality(len(batches)))


class _BatchList(keras.utils.PyDataset):
    def __init__(self, batches: list[dict[str, Tensor]]) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[dict[str, Tensor]]:
        return (self._batches[index],)
