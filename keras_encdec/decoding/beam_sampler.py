"""Beam search, and greedy search as the beam of one."""

import dataclasses
import math

import numpy as np

from keras_encdec.decoding.barred_words import barred
from keras_encdec.decoding.beams import Beams
from keras_encdec.decoding.best_words import best_words
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN


@dataclasses.dataclass(frozen=True)
class BeamSampler:
    """The best target sequences that a beam of so many partial ones finds.

    At each step the best continuations of all partial sequences of a source are ranked together; those
    of them that end are kept apart, and the best that do not end go on. The search for a source is over
    when no partial sequence can become better than the worst of the `num_best` best that ended. Every
    hypothesis ends: at the length limit nothing else may follow.

    Args:
        num_beams: int. Partial sequences a source.
        num_best: int. Hypotheses to return a source, at most `num_beams`. Defaults to `1`.
        length_penalty: float. Hypotheses of T tokens are ranked by log p / ((5 + T) / 6) ** length_penalty,
            which favours longer ones. Defaults to `0.0`: by log p.
        suppress_unknown: bool. Whether no hypothesis may have the unknown word. Defaults to `False`.

    Raises:
        ValueError: when a number is out of its range.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), section 2.2: beam search
        - Wu et al., 2016 (arXiv 1609.08144), equation 14: the length penalty
    """

    num_beams: int
    num_best: int = 1
    length_penalty: float = 0.0
    suppress_unknown: bool = False

    def __post_init__(self):
        if self.num_beams < 1:
            raise ValueError(f"found num_beams={self.num_beams}, expected 1 or more")
        if not 1 <= self.num_best <= self.num_beams:
            raise ValueError(f"found num_best={self.num_best}, expected 1 to num_beams, {self.num_beams}")
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(f"found length_penalty={self.length_penalty}, expected a number, 0 or more")

    @property
    def rows(self):
        """int. Target sequences that are decoded together for a source."""
        return self.num_beams

    @property
    def key(self):
        """All that `choose` depends on."""
        return "beam", self.num_beams, self.suppress_unknown

    def choose(self, log_probs):
        """The best words of each row that do not end it, and log p of its end."""
        continued = barred(log_probs, [PADDING, END] + [UNKNOWN] * self.suppress_unknown)
        values, words = best_words(continued, min(self.num_beams, log_probs.shape[-1]))
        return [values, words, log_probs[:, END]]

    def run(self, search, limits, numbers):
        """Searches.

        Args:
            search: Search of `num_beams` copies of each source.
            limits: int array `(sources,)`, tokens of a target sequence at most, its end counted.
            numbers: not used.

        Returns:
            list, for each source a list of Hypothesis, the best first.
        """
        beams = Beams(self, limits)
        while True:
            parents = beams.advance(*search.step(beams.words))
            if not beams.searching.any():
                return beams.best()
            kept = beams.compacted()
            if kept is not None:
                search.keep(parents[kept])
            elif (parents != np.arange(len(parents))).any():
                search.reorder(parents)

    def normalized(self, log_prob, length):
        """What a hypothesis of so many tokens is ranked by."""
        return log_prob / ((5 + length) / 6) ** self.length_penalty


def GreedySampler(suppress_unknown=False):
    """The most probable word at each step: a `BeamSampler` of one beam.

    Args:
        suppress_unknown: bool. See `BeamSampler`. Defaults to `False`.
    """
    return BeamSampler(1, suppress_unknown=suppress_unknown)
