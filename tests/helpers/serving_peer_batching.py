"""Batching of the peer of TensorFlow Serving: concurrent runs are merged along dimension 0."""

import collections
import concurrent.futures
import os
import re
import threading
import time

import numpy as np
from serving_peer_status import Refusal

# The stock server's defaults for parameters that a file leaves out.
_DEFAULTS = {
    "max_batch_size": 1000,
    "batch_timeout_micros": 0,
    "max_enqueued_batches": 10,
    "num_batch_threads": os.cpu_count(),
}


def parse_parameters(text):
    """Parses the parameters of batching from the text of a `BatchingParameters` proto.

    Args:
        text: str. Such as "max_batch_size { value: 64 } allowed_batch_sizes: 64".

    Returns:
        dict of int, with the list of int "allowed_batch_sizes".

    Raises:
        Refusal: for parameters that are not known here, or that contradict each other.
    """
    parameters = _DEFAULTS | {"allowed_batch_sizes": []}
    rest = re.sub("#.*", "", text)
    while rest.strip():
        match = re.match(r"\s*(\w+)\s*(?::\s*(\d+)|:?\s*\{\s*value\s*:\s*(\d+)\s*\})", rest)
        name = match and match[1]
        if name == "allowed_batch_sizes" and match[2]:
            parameters[name].append(int(match[2]))
        elif name in _DEFAULTS and match[3]:
            parameters[name] = int(match[3])
        else:
            raise Refusal("INVALID_ARGUMENT", f"Cannot parse batching parameters at: {rest.strip()[:80]}")
        rest = rest[match.end() :]
    allowed, largest = parameters["allowed_batch_sizes"], parameters["max_batch_size"]
    if allowed and allowed[-1] != largest:
        raise Refusal(
            "INVALID_ARGUMENT",
            "Last entry in allowed_batch_sizes must match max_batch_size; last entry was "
            f"{allowed[-1]}; expected {largest}",
        )
    return parameters


class Batch:
    """Tasks to run together. Each has its inputs, their size along dimension 0, and a future for its outputs."""

    def __init__(self):
        self.tasks, self.size, self.start = [], 0, 0

    def add(self, inputs, size):
        if not self.tasks:
            self.start = time.monotonic()
        self.size += size
        self.tasks.append((inputs, size, concurrent.futures.Future()))
        return self.tasks[-1][2]


class BatchScheduler:
    """Threads that run batches, shared by all versions of all models.

    Args:
        parameters: dict, from `parse_parameters`.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        self._changed = threading.Condition()
        self._queues = collections.OrderedDict()
        for _ in range(parameters["num_batch_threads"]):
            threading.Thread(target=self._work, daemon=True).start()

    def run(self, session, inputs, outputs):
        """Runs a session as part of a batch.

        Args:
            session: object whose method `run` takes the other two arguments.
            inputs: dict of arrays, by the name of the tensor.
            outputs: list of str, names of tensors.

        Returns:
            list of arrays.

        Raises:
            Refusal: if the task cannot be batched, or the queue is full.
        """
        size = _size(inputs)
        limit = self._parameters["max_batch_size"]
        if size > limit:
            raise Refusal("INVALID_ARGUMENT", f"Task size {size} is larger than maximum input batch size {limit}")
        names = tuple(sorted(set(outputs)))
        with self._changed:
            key = session, tuple(sorted(inputs)), names
            batches = self._queues.setdefault(key, collections.deque([Batch()]))
            if batches[-1].size + size > limit:
                if len(batches) >= self._parameters["max_enqueued_batches"]:
                    raise Refusal(
                        "UNAVAILABLE",
                        "The batch scheduling queue to which this task was submitted is full; currently "
                        f"{len(batches)} batches enqueued and max_enqueued_batches is "
                        f"{self._parameters['max_enqueued_batches']}",
                    )
                batches.append(Batch())
            future = batches[-1].add(inputs, size)
            self._changed.notify()
        found = dict(zip(names, future.result(), strict=True))
        return [found[name] for name in outputs]

    def _work(self):
        while True:
            with self._changed:
                while (found := self._due()) is None:
                    self._changed.wait(self._seconds_left())
            (session, _, names), batch = found
            try:
                answers = self._outputs(session, names, batch)
            except Exception as error:
                for _, _, future in batch.tasks:
                    future.set_exception(error)
            else:
                for (_, _, future), answer in zip(batch.tasks, answers, strict=True):
                    future.set_result(answer)
            del found, session, batch  # so that a version that is unloaded meanwhile is freed

    def _due(self):
        """Takes the next batch that is due from its queue; returns the queue's key and the batch, or `None`."""
        for key, batches in self._queues.items():
            if len(batches) > 1 or self._seconds_open(batches[0]) <= 0:
                batch = batches.popleft()
                # An empty queue is dropped, with its reference to the version; others go to the end, for fairness.
                self._queues.pop(key)
                if batches:
                    self._queues[key] = batches
                return key, batch
        return None

    def _seconds_left(self):
        opened = [self._seconds_open(batches[0]) for batches in self._queues.values()]
        return max(min(opened), 0) if opened else None

    def _seconds_open(self, batch):
        if batch.size >= self._parameters["max_batch_size"]:
            return 0
        return batch.start + self._parameters["batch_timeout_micros"] / 1e6 - time.monotonic()

    def _outputs(self, session, names, batch):
        """Runs a batch; returns the list of outputs of each task."""
        allowed = [size for size in self._parameters["allowed_batch_sizes"] if size >= batch.size]
        padding = (allowed[0] if allowed else batch.size) - batch.size
        names_in = batch.tasks[0][0]
        merged = {name: _merged([inputs[name] for inputs, _, _ in batch.tasks], name, padding) for name in names_in}
        outputs = session.run(merged, list(names))
        size = len(next(iter(merged.values())))
        for output in outputs:
            if not output.ndim:
                raise Refusal("FAILED_PRECONDITION", "Batched output tensor has 0 dimensions")
            if len(output) != size:
                raise Refusal(
                    "FAILED_PRECONDITION",
                    "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the "
                    "input tensors",
                )
        ends = np.cumsum([size for _, size, _ in batch.tasks])
        return [
            [output[end - size : end] for output in outputs]
            for end, (_, size, _) in zip(ends, batch.tasks, strict=True)
        ]


def _size(inputs):
    """Returns the size that all inputs have along dimension 0."""
    if not inputs:
        raise Refusal("INVALID_ARGUMENT", "Batching Run() must have at least one input tensor")
    sizes = set()
    for array in inputs.values():
        if not array.ndim:
            raise Refusal("INVALID_ARGUMENT", "Batching Run() input tensors must have at least one dimension")
        sizes.add(len(array))
    if len(sizes) > 1:
        raise Refusal("INVALID_ARGUMENT", "Batching Run() input tensors must have equal 0th-dimension size")
    return sizes.pop()


def _merged(arrays, name, padding):
    """Concatenates the arrays of the tasks for one input, padded with the first row of the last array that has rows."""
    if len({array.shape[1:] for array in arrays}) > 1:
        raise Refusal(
            "FAILED_PRECONDITION",
            f"Tensors with name '{name}' from different tasks have different shapes and padding is turned off."
            "Set pad_variable_length_inputs to true, or ensure that all tensors with the same name"
            "have equal dimensions starting with the first dim.",
        )
    if len({array.dtype for array in arrays}) > 1:
        raise Refusal("INTERNAL", "Tensor concat operation failed: tensors have different data types")
    # A task without rows has none to pad with. Whether the stock server survives such a batch is not known.
    rows = [array[:1] for array in reversed(arrays) if len(array)]
    return np.concatenate([*arrays, *rows[:1] * padding])
