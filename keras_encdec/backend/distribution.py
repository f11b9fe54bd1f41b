"""Finds the devices to train on, and connects the processes of JAX and PyTorch that share a training run."""

import contextlib
import datetime
import importlib
import json
import os
from collections.abc import Callable, Iterator, Sequence

import keras
import numpy as np

from keras_encdec.backend.devices import backend_name
from keras_encdec.backend.mirrored import mirrored_replicas
from keras_encdec.backend.replicas import ALL, Compilation, Replicas, Shapes, check_all, check_number
from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.configuration import ConfigurationError

# The jobs in the cluster of TF_CONFIG whose tasks train.
_WORKERS = "chief", "worker"
# Time that a process waits for the others, which may prepare a large corpus meanwhile.
_TIMEOUT = datetime.timedelta(days=1)


def find_replicas(devices: str) -> Replicas:
    """Finds the devices to train on, and connects the processes if there are several.

    Args:
        devices: str. "all", or the number of devices in all processes together.

    Raises:
        ConfigurationError: a ValueError, if the backend cannot train on this number of devices.
    """
    launched = {backend: processes() for backend, processes in _PROCESS_COUNTS.items()}
    for backend, processes in launched.items():
        if processes > 1 and backend != backend_name():
            raise ConfigurationError(
                f"found %d processes started for {_LAUNCHERS[backend]} with the backend %s, expected KERAS_BACKEND=%s",
                processes,
                backend_name(),
                backend,
            )
    processes = launched[backend_name()]
    if processes > 1 and devices == "1":
        raise ConfigurationError(
            "found {devices}=1 in one of %d processes, each of which would train its own model; give {devices}=%s",
            processes,
            ALL,
        )
    if devices == "1":
        return Replicas()
    found = _REPLICAS[backend_name()](None if devices == ALL else int(devices), processes)
    return found if found.devices > 1 else Replicas()


class _JaxReplicas(Replicas):
    """Devices of JAX, in one process or several: `keras.distribution.DataParallel`.

    Keras divides each batch among the devices; every variable has a copy on each device.
    """

    def __init__(self, requested: int | None, processes: int) -> None:
        import jax

        if processes > 1 and not jax.distributed.is_initialized():
            keras.distribution.initialize()
        devices = keras.distribution.list_devices()
        self.processes, self.process = jax.process_count(), jax.process_index()
        self.devices = check_number(requested, len(devices), f"under JAX in {self.processes} processes")
        if self.processes > 1:
            check_all(requested, len(devices))
        self._distribution = keras.distribution.DataParallel(devices=devices[: self.devices], auto_shard_dataset=False)

    def building(self) -> contextlib.AbstractContextManager[object]:
        return self._distribution.scope()

    training = building

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        keras.distribution.set_distribution(None)
        try:
            yield
        finally:
            keras.distribution.set_distribution(self._distribution)

    def gather(self, values: np.ndarray) -> np.ndarray:
        if self.processes == 1:
            return values[None]
        gather = importlib.import_module("jax.experimental.multihost_utils").process_allgather
        # As bytes: JAX would round numbers of 64 bits to 32.
        everywhere = np.asarray(gather(np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)))
        return np.frombuffer(everywhere.astype(np.uint8).tobytes(), values.dtype).reshape(-1, *values.shape)


class _TorchReplicas(Replicas):
    """Devices of PyTorch, one in each process that `torchrun` started.

    The gradients are added up before the optimizer gets them, as in DistributedDataParallel, and clipped after that.
    """

    def __init__(self, requested: int | None, processes: int) -> None:
        import torch
        from torch import distributed

        graphics = torch.cuda.device_count()
        if processes == 1:
            if (requested or graphics) <= 1:
                return
            raise ConfigurationError(
                "found {devices}=%s in one process of PyTorch, which trains on one device; start a process for each: "
                "torchrun --nproc_per_node=%d --no-python encdec-train ... {devices}=%s",
                requested or ALL,
                requested or graphics,
                ALL,
            )
        check_all(requested, processes)
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if graphics:
            if local >= graphics:
                raise ConfigurationError(
                    "found %d GPUs for process %d of this machine, expected one per process; start fewer processes",
                    graphics,
                    local + 1,
                )
            torch.cuda.set_device(local)
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if graphics else "gloo", timeout=_TIMEOUT)
        self._device = f"cuda:{local}" if graphics else "cpu"
        self.devices = self.processes = distributed.get_world_size()
        self.process = distributed.get_rank()

    def set_up(self, model: keras.Model, jit_compile: bool, begin: Callable[[Shapes], object]) -> Compilation | None:
        import torch
        from torch import distributed

        with torch.no_grad():
            for variable in [*model.variables, *model.optimizer.variables]:
                distributed.broadcast(variable.value.data, 0)
        # Each process draws its own numbers for dropout; the first process draws those of a single device.
        if self.process:
            torch.manual_seed(torch.initial_seed() + self.process)
        apply, share = model.optimizer.apply, 1 / self.devices if model.reduction == "mean" else 1
        model.replicas = self.devices

        def apply_sum(gradients: list[Tensor], trainable_variables: list[keras.Variable] | None = None) -> None:
            apply(self._sums([gradient * share for gradient in gradients]), trainable_variables)

        model.optimizer.apply = apply_sum
        model.make_train_function()
        model.make_test_function()
        model.train_function = self._with_summed_metrics(model, model.train_function)
        model.test_function = self._with_summed_metrics(model, model.test_function)
        return Compilation()

    def gather(self, values: np.ndarray) -> np.ndarray:
        import torch
        from torch import distributed

        own = torch.tensor(values, device=self._device)
        gathered = [torch.empty_like(own) for _ in range(self.processes)]
        distributed.all_gather(gathered, own)
        return np.stack([tensor.cpu().numpy() for tensor in gathered])

    def _sums(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Adds up the tensors of all processes, in one exchange."""
        import torch
        from torch import distributed

        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        sizes = [tensor.numel() for tensor in tensors]
        return [part.view(tensor.shape) for part, tensor in zip(flat.split(sizes), tensors, strict=True)]

    def _with_summed_metrics(
        self, model: keras.Model, function: Callable[[Structure], Structure]
    ) -> Callable[[Structure], Structure]:
        """Makes each step add the counts of all processes to the metrics, not only those of this one."""
        import torch

        # With "sum", the loss is that of all rows, but Keras's metric averages the losses of the processes.
        total = model.metrics_variables[0]
        factor = self.devices if model.reduction == "sum" else 1

        def step(data: Structure) -> dict[str, Tensor]:
            variables = model.metrics_variables
            with torch.no_grad():
                before = [variable.value.clone() for variable in variables]
            for variable in variables:
                variable.assign(torch.zeros_like(variable.value))
            function(data)
            with torch.no_grad():
                counted = self._sums([variable.value for variable in variables])
            for variable, old, new in zip(variables, before, counted, strict=True):
                variable.assign(old + new * (factor if variable is total else 1))
            return model.get_metrics_result()

        return step


def _environment_number(variable: str) -> int:
    value = os.environ.get(variable, "")
    return int(value) if value.isdecimal() else 1


def _tensorflow_workers() -> int:
    """Returns the number of workers in the cluster of TF_CONFIG."""
    try:
        described = json.loads(os.environ.get("TF_CONFIG") or "{}")
        cluster = described.get("cluster", {})
        workers = max(1, sum(len(cluster.get(kind, ())) for kind in _WORKERS))
        task = described.get("task", {})
        number, kind = task.get("index"), task.get("type")
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigurationError("found a TF_CONFIG that does not describe a cluster in JSON (%s)", error) from error
    if workers > 1 and (kind not in _WORKERS or number not in range(len(cluster.get(kind, ())))):
        raise ConfigurationError(
            "found the task %s in a TF_CONFIG with %d workers, expected the number of this process among them, such as "
            '{"type": "worker", "index": 0}',
            json.dumps(task),
            workers,
        )
    return workers


_REPLICAS: dict[str, Callable[[int | None, int], Replicas]] = {
    "tensorflow": mirrored_replicas,
    "jax": _JaxReplicas,
    "torch": _TorchReplicas,
}
# How several processes are started for each backend.
_LAUNCHERS = {
    "tensorflow": "TensorFlow by TF_CONFIG",
    "jax": "JAX by KERAS_DISTRIBUTION_NUM_PROCESSES",
    "torch": "PyTorch by torchrun",
}
# How many processes were started, for each backend.
_PROCESS_COUNTS: dict[str, Callable[[], int]] = {
    "tensorflow": _tensorflow_workers,
    "jax": lambda: _environment_number("KERAS_DISTRIBUTION_NUM_PROCESSES"),
    "torch": lambda: _environment_number("WORLD_SIZE"),
}
