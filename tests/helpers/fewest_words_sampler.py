"""A sampler that only the tests have: what is needed to add one."""

import dataclasses

from keras import ops

from keras_encdec.configuration import hyperparameter
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.text import END


@dataclasses.dataclass(frozen=True)
class FewestWordsSampler(Sampler):
    """The n-th most probable words in the n-th of several rows; a row ends as soon as its end is probable enough.

    Args:
        num_ranks: int. Rows per source.
        end_probability: float. The end of sequence is chosen if it is at least this probable.
    """

    num_ranks: int = hyperparameter(2, "Rows per source.", minimum=1)
    end_probability: float = hyperparameter(0.2, "Minimum probability of the end.", above=0, maximum=1)

    @property
    def rows_per_source(self):
        return self.num_ranks

    def choose(self, log_probs, search, draws=None):
        _, words = ops.top_k(self.allowed(log_probs, end=False), self.num_ranks)
        rank = ops.arange(ops.shape(log_probs)[0]) % self.num_ranks
        words = ops.take_along_axis(words, ops.cast(rank[:, None], words.dtype), axis=1)[:, 0]
        ends = ops.exp(log_probs[:, END]) >= self.end_probability
        return ops.where(ends, END, ops.cast(words, "int32"))
