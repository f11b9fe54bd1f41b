"""Greedy search."""

import dataclasses

from keras_encdec.backend.keras_ops import ops
from keras_encdec.backend.operations import top_k
from keras_encdec.backend.types import SearchState, Tensor
from keras_encdec.configuration import hyperparameter
from keras_encdec.decoding.sampler import SUPPRESS_UNKNOWN, Sampler
from keras_encdec.text.vocabulary import END


@dataclasses.dataclass(frozen=True)
class GreedySampler(Sampler):
    """Greedy search: the most probable word at each step.

    It finds what a `BeamSampler` with one beam finds.

    Args:
        suppress_unknown: bool. Whether to exclude the unknown word. Defaults to `False`.

    Example:

    >>> from keras import ops
    >>> sampler = GreedySampler()
    >>> log_probs = ops.log(ops.array([[0.1, 0.1, 0.2, 0.6], [0.1, 0.1, 0.5, 0.3]]))
    >>> choice, search = sampler.step(log_probs, sampler.initial([5, 5]))
    >>> ops.convert_to_numpy(choice.words).tolist(), ops.convert_to_numpy(search["searching"]).tolist()
    ([[3], [2]], [True, False])
    """

    suppress_unknown: bool = hyperparameter(False, SUPPRESS_UNKNOWN)

    def choose(self, log_probs: Tensor, search: SearchState, draws: Tensor | None = None) -> Tensor:
        best, words = top_k(self.allowed(log_probs, end=False), 1)
        return ops.where(log_probs[:, END] >= best[:, 0], END, words[:, 0])
