"""Batches in the form in which `model.fit` and `model.evaluate` take them soonest."""

from collections.abc import Callable, Iterable
from typing import Any

import keras

from keras_encdec.backend.devices import name
from keras_encdec.data.tf_dataset import tf_dataset


def training_stream(make_batches: Callable[[], Iterable[dict]]) -> Any:
    """An endless stream of batches for `model.fit`.

    Args:
        make_batches: callable without arguments to an iterable of dicts "source" and "target", int32 arrays.
    """
    if name() == "tensorflow":
        return tf_dataset(make_batches)
    return ((batch,) for batch in make_batches())


def evaluation_batches(make_batches: Callable[[], list[dict]]) -> Any:
    """All batches of a set, for `model.evaluate` and for validation in `model.fit`.

    Args:
        make_batches: callable without arguments to a list of dicts "source" and "target", int32 arrays.
    """
    return tf_dataset(make_batches) if name() == "tensorflow" else _BatchList(make_batches())


class _BatchList(keras.utils.PyDataset):
    def __init__(self, batches) -> None:
        super().__init__()
        self._batches = batches

    def __len__(self):
        return len(self._batches)

    def __getitem__(self, index):
        return (self._batches[index],)
