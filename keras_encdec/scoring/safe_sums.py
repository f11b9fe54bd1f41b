"""Log-sum-exp without subtracting the maximum first, where the results show that it is exact."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from keras_encdec.backend.operations import SAFE

Results = TypeVar("Results")


class SafeSums:
    """Computes quickly, and computes again carefully if a sum is too large or too small for that.

    After the first such sum, all further calls are careful from the start.
    """

    def __init__(self) -> None:
        self._careful = False

    def __call__(self, compute: Callable[[bool], Results], sums: Callable[[Results], np.ndarray]) -> Results:
        """Returns results whose sums are exact.

        Args:
            compute: callable of `careful`, see `keras_encdec.backend.operations.log_sum_exp`, to results.
            sums: callable of results to the log-sum-exps in them that are in use, an array in nats.
        """
        if not self._careful:
            results = compute(False)
            if (np.abs(sums(results)) < SAFE).all():
                return results
            self._careful = True
        return compute(True)
