"""Training steps under PyTorch as CUDA graphs, which an NVIDIA GPU replays.

This module imports torch. Only functions that run under PyTorch import it.
"""

import contextlib
import functools
import warnings
from collections.abc import Callable, Hashable
from typing import Any

import keras
import torch
from torch.overrides import TorchFunctionMode

from keras_encdec.backend.replicas import shapes_of
from keras_encdec.backend.types import Structure, Tensor

#: A training step of a model: a function of a batch that returns the values of the metrics.
TrainStep = Callable[[Structure], dict[str, Tensor]]
# Parts of two of PyTorch's warnings: an operation waits for the GPU, and detecting such operations is experimental.
_WAITS, _DEBUGGING = "synchronizing CUDA operation", "Synchronization debug mode"
_CONVERSIONS = {torch.as_tensor, torch.tensor}


class RecordedSteps:
    """Takes the training steps of a model on an NVIDIA GPU, recorded once for each shape of batch.

    A step consists of thousands of small operations, and Python starts them far more slowly than the GPU computes them.
    The first step of a shape runs eagerly. The second is recorded as a CUDA graph, which the GPU replays from
    then on with the values of the new batch and the current values of all variables. `benchmarks/run.py` (train)
    measures the benefit.

    Only a step that never waits for the GPU can be recorded. If the first step waits, because Python reads a value that
    the GPU computes, all steps run eagerly.

    Args:
        step: function of a batch, a structure of int tensors, that changes the model's variables in place and returns a
            dict of scalars.

    Reference:
        - PyTorch's documentation, "CUDA semantics: CUDA Graphs"
    """

    def __init__(self, step: TrainStep) -> None:
        self._step = step
        self._stream = torch.cuda.Stream()
        self._record = functools.partial(
            torch.cuda.graph,
            pool=torch.cuda.graph_pool_handle(),
            stream=self._stream,
            capture_error_mode="thread_local",  # another thread, such as that of a reader, may use the GPU
        )
        self._recordings: dict[Hashable, _Recording | None] = {}
        self._waits = False

    def __call__(self, batch: Structure, task: str = "") -> dict[str, Tensor]:
        """Takes a step.

        Args:
            batch: structure of tensors.
            task: str. Steps of different tasks have separate recordings. Defaults to an empty name.

        Returns:
            dict of scalars; the next step with a batch of this shape overwrites them.
        """
        batch = keras.tree.map_structure(lambda part: torch.as_tensor(part).cuda(), batch)
        # A recording must not begin on the default stream. All steps use one stream, so that they share memory.
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            logs = self._taken(batch, (task, shapes_of(batch)))
        torch.cuda.current_stream().wait_stream(self._stream)
        return logs

    def _taken(self, batch: Structure, kind: Hashable) -> dict[str, Tensor]:
        if self._waits:
            return self._step(batch)
        if kind not in self._recordings:
            self._recordings[kind] = None
            return self._observed(batch)
        recording = self._recordings[kind]
        if recording is None:
            recording = self._recordings[kind] = _Recording(self._step, batch, self._record)
        return recording.replayed(batch)

    def _observed(self, batch: Structure) -> dict[str, Tensor]:
        """Takes a step eagerly, and notices whether it waits for the GPU."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                with NumbersOnDevice():
                    logs = self._step(batch)
            finally:
                torch.cuda.set_sync_debug_mode(before)
        for warning in caught:
            if _WAITS in str(warning.message):
                self._waits = True
            elif _DEBUGGING not in str(warning.message):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        return logs


class _Recording:
    """A CUDA graph of a step, with the tensors that it reads the batch from and writes the metrics to."""

    def __init__(
        self,
        step: TrainStep,
        batch: Structure,
        record: Callable[[torch.cuda.CUDAGraph], contextlib.AbstractContextManager[object]],
    ) -> None:
        self._batch = keras.tree.map_structure(torch.clone, batch)
        self._graph = torch.cuda.CUDAGraph()
        with record(self._graph), NumbersOnDevice():
            self._logs = step(self._batch)

    def replayed(self, batch: Structure) -> dict[str, Tensor]:
        """Takes a step with a batch of the same shape."""
        for part, values in zip(keras.tree.flatten(self._batch), keras.tree.flatten(batch), strict=True):
            part.copy_(values)
        self._graph.replay()
        return self._logs


class NumbersOnDevice(TorchFunctionMode):
    """A context in which Python's numbers become tensors on the GPU without a copy from the CPU, which would wait.

    Keras makes a tensor of each number in an operation such as `ops.maximum(x, 0)`. Its optimizers Adadelta and SGD
    pass the learning rate, a tensor, as a number.
    """

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if func in _CONVERSIONS and isinstance(args[0], bool | int | float) and len(args) == 1:
            return torch.full((), args[0], **kwargs)
        if func is torch._foreach_add_ and isinstance(kwargs.get("alpha"), torch.Tensor):
            tensors, added = args
            return torch._foreach_add_(tensors, torch._foreach_mul(added, kwargs["alpha"]))
        return func(*args, **kwargs)
