"""Training on several devices with TensorFlow: the mirrored strategies of `tf.distribute`, with a custom training step.

Keras's own training step clips each replica's gradient before the gradients are added up, and XLA cannot compile a step
in which replicas exchange anything. Here, a function without variables computes the gradient of a replica's rows; XLA
can compile it on each device. The gradients are then added up, clipped and applied.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_encdec.backend.gradients import dense_gradient
from keras_encdec.backend.replicas import (
    Batch,
    Compilation,
    Replicas,
    Shapes,
    check_all,
    check_number,
    train_function_by_shape,
)
from keras_encdec.backend.types import Tensor
from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError

if TYPE_CHECKING:
    import tensorflow as tf


def mirrored_replicas(requested: int | None, processes: int) -> Replicas:
    """Finds the devices of TensorFlow to train on: its GPUs, or else its logical CPUs.

    Args:
        requested: int. Number of devices; `None` for all.
        processes: int. Number of processes that were started.

    Raises:
        ConfigurationError: a ValueError, if there are fewer devices.
    """
    import tensorflow as tf

    if processes > 1:
        return WorkerReplicas(requested, processes)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    number = check_number(requested, len(devices), "under TensorFlow")
    if number == 1:
        return Replicas()
    return MirroredReplicas(tf.distribute.MirroredStrategy([device.name for device in devices[:number]]))


class MirroredReplicas(Replicas):
    """Devices of TensorFlow in one process. Every device has a copy of the variables.

    Args:
        strategy: `tf.distribute.Strategy` of the devices.
    """

    def __init__(self, strategy: "tf.distribute.Strategy") -> None:
        self.devices, self._strategy = strategy.num_replicas_in_sync, strategy

    def building(self) -> contextlib.AbstractContextManager[object]:
        return self._strategy.scope()

    def set_up(self, model: keras.Model, jit_compile: bool, begin: Callable[[Shapes], object]) -> Compilation | None:
        # Keras would divide the batches of tf.data itself, and trace one step for all shapes.
        model._distribute_strategy = None
        optimizer = model.optimizer
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            raise ConfigurationError(
                "found {dtype_policy}=mixed_float16 with {devices}=%d under TensorFlow, expected float32 or "
                "mixed_bfloat16, or KERAS_BACKEND=jax",
                self.devices,
            )
        # The gradients are added up before they are clipped; Keras would add them up once more afterwards.
        optimizer._all_reduce_sum_gradients = list
        if not optimizer.built:
            with self._strategy.scope():
                optimizer.build(model.trainable_variables)
        model.replicas = self.devices
        train = _ReplicaStep(model, self.devices, True, jit_compile)
        compilation = Compilation()
        evaluate = self._function(_ReplicaStep(model, self.devices, False, False))
        model.train_function = train_function_by_shape(lambda: self._function(train), begin, compilation)
        model.test_function = lambda iterator: evaluate(next(iterator))
        return compilation

    def _function(self, step: "_ReplicaStep") -> Callable[[Batch], dict[str, Tensor]]:
        """Compiles a step of all replicas, a function of the rows of this process."""
        import tensorflow as tf

        local_devices = self.devices // self.processes

        @tf.function(autograph=False, reduce_retracing=True)
        def run(batch: Batch) -> dict[str, Tensor]:
            def rows(context: tf.distribute.experimental.ValueContext) -> Batch:
                number = context.replica_id_in_sync_group - self.process * local_devices
                return {side: tf.split(ids, local_devices)[number] for side, ids in batch.items()}

            parts = self._strategy.experimental_distribute_values_from_function(rows)
            self._strategy.run(step, args=(parts,))
            return step.model.get_metrics_result()

        def run_with_others(batch: Batch) -> dict[str, Tensor]:
            with _others_alive():
                return run(batch)

        return run_with_others


class WorkerReplicas(MirroredReplicas):
    """Devices of TensorFlow in several processes, the workers of TF_CONFIG: the GPUs of each, or one CPU of each."""

    def __init__(self, requested: int | None, processes: int) -> None:
        import tensorflow as tf

        super().__init__(_connected_workers())
        self.processes = processes
        resolver = self._strategy.cluster_resolver
        follows_chief = resolver.task_type == "worker" and "chief" in resolver.cluster_spec().jobs
        self.process = resolver.task_id + int(follows_chief)
        check_all(requested, self.devices)
        self._gathered = tf.function(self._gather_row, autograph=False)

    def gather(self, values: np.ndarray) -> np.ndarray:
        # As 32-bit integers, which TensorFlow gathers, unlike bytes.
        data = values.tobytes()
        row = np.frombuffer(data + bytes(-len(data) % 4), np.int32)[None]
        with _others_alive():
            rows = self._strategy.experimental_local_results(self._gathered(row))[0].numpy()
        rows = rows[:: self.devices // self.processes]  # one row of each process
        return np.stack([np.frombuffer(row.tobytes(), values.dtype, values.size).reshape(values.shape) for row in rows])

    def _gather_row(self, row: Tensor) -> Tensor:
        import tensorflow as tf

        return self._strategy.run(lambda: tf.distribute.get_replica_context().all_gather(tf.identity(row), 0))


@contextlib.contextmanager
def _others_alive() -> Iterator[None]:
    """Explains the error that an exchange raises if another worker has ended."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if "Collective ops is aborted" not in str(error):
            raise
        expected = "expected all workers of TF_CONFIG"
        remedy = "see what that worker printed, and start the same command on all of them again with --resume"
        raise InputError("found that another worker of this training has ended", expected, remedy) from error


@functools.cache
def _connected_workers() -> "tf.distribute.Strategy":
    """Returns the strategy of this process, which connects to the others only once, even for several training runs."""
    import tensorflow as tf

    return tf.distribute.MultiWorkerMirroredStrategy()


class _ReplicaStep:
    """One step of a replica: computes the gradient of its rows of a batch, and applies the sum over all replicas."""

    def __init__(self, model: keras.Model, replicas: int, training: bool, jit_compile: bool) -> None:
        import tensorflow as tf

        self.model, self._replicas, self._training = model, replicas, training
        self._compute = self._gradients
        if jit_compile:
            self._compute = tf.function(self._gradients, jit_compile=True, autograph=False)

    def __call__(self, batch: Batch) -> None:
        import tensorflow as tf

        model, context = self.model, tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        trainable = [tf.convert_to_tensor(variable.value) for variable in model.trainable_variables]
        fixed = [tf.convert_to_tensor(variable.value) for variable in model.non_trainable_variables]
        drawn = [_of_replica(value, replica) for value in fixed]
        gradients, counted, changed = self._compute(trainable, drawn, batch)
        for variable, increment in zip(model.metrics_variables, counted, strict=True):
            variable.value.assign_add(increment)
        if not self._training:
            return
        model.optimizer.apply(context.all_reduce(tf.distribute.ReduceOp.SUM, gradients), model.trainable_variables)
        for variable, value in zip(model.non_trainable_variables, changed, strict=True):
            # Equal on all replicas, because a checkpoint contains only one.
            variable.assign(_of_replica(value, replica, -1))

    def _gradients(
        self, trainable: list[Tensor], fixed: list[Tensor], batch: Batch
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Computes the gradient of the loss of some rows, the increments of the metrics, and the next random states."""
        import tensorflow as tf

        model = self.model
        metrics = model.metrics_variables
        with tf.GradientTape() as tape:
            tape.watch(trainable)
            variables = [*model.trainable_variables, *model.non_trainable_variables]
            values = list(zip(variables, [*trainable, *fixed], strict=True))
            with keras.StatelessScope(state_mapping=values, collect_losses=True) as scope:
                outputs = model.call(batch, training=self._training)
                loss = model.compute_loss(batch, None, outputs, training=self._training)
            changed = [scope.get_current_value(variable) for variable in model.non_trainable_variables]
            if model.reduction == "mean":
                loss = loss / self._replicas
        gradients = tape.gradient(loss, trainable) if self._training else []
        zeros = [(variable, tf.zeros(variable.shape, variable.dtype)) for variable in metrics]
        with keras.StatelessScope(state_mapping=zeros) as scope:
            # The losses of the replicas add up to that of the batch; Keras's metric averages them.
            model._loss_tracker.update_state(loss * self._replicas, sample_weight=tf.shape(batch["target"])[0])
            model.compute_metrics(batch, None, outputs)
        counted = [scope.get_current_value(variable) for variable in metrics]
        return [dense_gradient(gradient) for gradient in gradients], counted, changed


def _of_replica(state: Tensor, replica: Tensor | int, sign: int = 1) -> Tensor:
    """Shifts the state of a random generator, so that replicas draw different numbers.

    The first replica keeps the state of a single device. The sign -1 undoes the shift.
    """
    import tensorflow as tf

    if not state.dtype.is_integer or state.shape != (2,):
        return state
    offset = tf.stack([tf.cast(replica, state.dtype), tf.zeros((), state.dtype)])
    return state + offset if sign > 0 else state - offset
