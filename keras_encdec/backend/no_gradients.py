"""Computing without a record of how, for what is no training."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from keras_encdec.backend.devices import name

Arguments, Result = ParamSpec("Arguments"), TypeVar("Result")


def without_gradients(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, whose tensors record no gradient under PyTorch: as they are, NumPy takes them.

    TensorFlow and JAX record gradients only where they are asked to.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if name() != "torch":
            return function(*args, **kwargs)
        import torch

        with torch.no_grad():
            return function(*args, **kwargs)

    return call
