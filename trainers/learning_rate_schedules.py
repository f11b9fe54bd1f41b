"""The step size on the way through a training."""

import math
from collections.abc import Callable


def learning_rate_schedule(
    name: str, halving_start: float = 5.0, halving_every: float = 1.0
) -> Callable[[float, float], float]:
    """What the step size is multiplied by.

        constant   1
        linear     1 - d
        cosine     (1 + cos(pi d)) / 2
        halving    1 before epoch e0, then 2^-(1 + floor((e - e0) / n))

    Args:
        name: str, one of these.
        halving_start: float. Epochs before the first halving, e0. Defaults to `5`.
        halving_every: float. Epochs from one halving to the next, n. Defaults to `1`.

    Returns:
        callable of d, the share of the training that is done, and e, the epochs that are done.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), and Luong et al., 2015 (arXiv 1508.04025),
          section 4.1: halving
    """
    return {
        "constant": lambda done, epochs: 1.0,
        "linear": lambda done, epochs: 1.0 - done,
        "cosine": lambda done, epochs: 0.5 * (1.0 + math.cos(math.pi * done)),
        "halving": lambda done, epochs: 0.5 ** max(0, 1 + math.floor((epochs - halving_start) / halving_every)),
    }[name]
