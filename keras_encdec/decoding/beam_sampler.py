"""Beam search, and greedy search, which keeps one hypothesis."""

import dataclasses
from typing import ClassVar

import numpy as np

from keras_encdec.backend.operations import ops, stable_top_k, top_k
from keras_encdec.backend.types import SearchState, Tensor
from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.decoding.sampler import SUPPRESS_UNKNOWN, Choice, Sampler
from keras_encdec.text.vocabulary import END

# Lower bound of the coverage of a source word, so that its logarithm is finite.
MIN_COVERAGE = 1e-6


@dataclasses.dataclass(frozen=True)
class BeamSampler(Sampler):
    """Beam search.

    At each step the best continuations of all partial sequences of a source are ranked together. Continuations that
    end are set aside as hypotheses; the best of the others form the new beam. The search for a source is over when no
    partial sequence can become better than the worst of the `num_best` best hypotheses. At the length limit only the
    end of sequence may follow. Hypotheses of T tokens are ranked by

        score = ln p / ((5 + T) / 6) ** length_penalty + coverage_penalty * coverage
        coverage = sum over s of ln min(sum over t of a_t(s), 1)

    where a_t(s) is the attention to source position s at target word t, the end of sequence included.

    Args:
        num_beams: int. Number of partial sequences per source. Defaults to `12`.
        num_best: int. Number of hypotheses to return per source, at most `num_beams`. Defaults to `1`.
        length_penalty: float. Above 0, it favours longer hypotheses. Defaults to `0.0`: hypotheses are ranked by ln p.
        coverage_penalty: float. Above 0, it lowers the rank of hypotheses that leave source words unattended. It needs
            a model with attention. Defaults to `0.0`.
        suppress_unknown: bool. Whether to exclude the unknown word. Defaults to `False`.

    Raises:
        ValueError: if a number is out of range.

    Reference:
        - Luong, 2016, Neural Machine Translation (thesis), section 2.2: beam search
        - Wu et al., 2016 (arXiv 1609.08144), equation 14: the penalties of length and coverage
    """

    search_options: ClassVar[tuple[str, ...]] = ("length_penalty",)

    num_beams: int = hyperparameter(
        12, "Partial sequences that a beam search keeps for each source.", minimum=1, published={"Luong, 2016": 12}
    )
    num_best: int = hyperparameter(1, "Best hypotheses to keep and write for each source.", minimum=1)
    length_penalty: float = hyperparameter(
        0.0,
        "Exponent x of the length penalty: hypotheses are ranked by ln p / ((5 + tokens) / 6)^x, which favours longer "
        "ones. 0: they are ranked by ln p.",
        minimum=0,
        maximum=10,
    )
    coverage_penalty: float = hyperparameter(
        0.0,
        "Weight of the coverage penalty, for a model with attention: it is multiplied by the sum over the source words "
        "of ln min(attention, 1) and added to the score, so that hypotheses that leave source words unattended rank "
        "lower. 0: no penalty.",
        minimum=0,
        maximum=1000,
    )
    suppress_unknown: bool = hyperparameter(False, SUPPRESS_UNKNOWN)

    def check(self) -> None:
        if self.num_best > self.num_beams:
            numbers = self.num_best, self.num_beams
            raise ConfigurationError("found {num_best}=%d, expected 1 to {num_beams}, %d", *numbers)

    @property
    def rows_per_source(self) -> int:
        return self.num_beams

    @property
    def results_per_source(self) -> int:
        return self.num_best

    @property
    def needs_attention(self) -> bool:
        return self.coverage_penalty > 0

    def keeping_all(self) -> "BeamSampler":
        return dataclasses.replace(self, num_best=self.num_beams)

    def initial(self, limits: Tensor, source_mask: Tensor | None = None) -> SearchState:
        limits = ops.convert_to_tensor(limits, "int32")
        zeros = ops.zeros_like(limits, dtype="float32")
        # At first all beams of a source are equal, so that only the first may be continued.
        first = np.where(np.arange(self.num_beams) == 0, 0.0, -np.inf)
        coverage = {}
        if self.needs_attention:
            padding = ops.cast(ops.logical_not(source_mask), "float32")  # counts as covered
            coverage["coverage"] = ops.repeat(padding[:, None], self.num_beams, axis=1)
        return {
            **coverage,
            "limits": limits,
            "length": ops.zeros_like(limits),
            "searching": ops.ones_like(limits, dtype="bool"),
            "totals": zeros[:, None] + ops.convert_to_tensor(first, "float32"),
            "scores": ops.repeat(zeros[:, None] - np.inf, self.num_best, axis=1),
            "length_penalty": zeros + self.length_penalty,
        }

    def step(
        self, log_probs: Tensor, search: SearchState, draws: Tensor | None = None, attention: Tensor | None = None
    ) -> tuple[Choice, SearchState]:
        beams, limits, length = self.num_beams, search["limits"], search["length"] + 1
        # The best words of each beam other than the end of sequence, and the best continuations of all beams.
        best = min(beams, log_probs.shape[-1])
        values, words = top_k(self.allowed(log_probs, end=False), best)
        totals = search["totals"][:, :, None] + ops.reshape(values, (-1, beams, best))
        totals = ops.where((length < limits)[:, None, None], totals, -np.inf)
        totals, order = stable_top_k(ops.reshape(totals, (-1, beams * best)), beams)

        def in_order(values: Tensor) -> Tensor:
            return ops.take_along_axis(ops.reshape(values, (-1, beams * best)), order, axis=1)

        # A beam that ends becomes a hypothesis if it is among the best of all continuations.
        end_log_probs = ops.reshape(log_probs[:, END], (-1, beams))
        ended = search["totals"] + end_log_probs
        least = stable_top_k(ops.concatenate([totals, ended], axis=1), beams)[0][:, -1:]
        penalty = search["length_penalty"]
        ended_scores = _score(ended, length[:, None], penalty[:, None])
        if self.needs_attention:
            coverage = search["coverage"] + attention
            logs = ops.log(ops.clip(coverage, MIN_COVERAGE, 1.0))
            ended_scores = ended_scores + self.coverage_penalty * ops.sum(logs, axis=-1)
        ended = ops.where(ended >= least, ended_scores, -np.inf)
        scores, kept = stable_top_k(ops.concatenate([search["scores"], ended], axis=1), self.num_best)

        # An upper bound of the scores that the beams can reach: ln p falls with every word, the length normalization
        # helps most at the limit, and the coverage penalty is at best 0.
        possible = _score(totals[:, 0], limits, penalty)
        searching = ops.logical_and(search["searching"], possible > scores[:, -1])
        parents = order // best
        choice = Choice(in_order(words), in_order(values), end_log_probs, kept, parents)
        totals = ops.where(searching[:, None], totals, -np.inf)
        changed = {"length": length, "searching": searching, "totals": totals, "scores": scores}
        if self.needs_attention:
            changed["coverage"] = ops.take_along_axis(coverage, parents[:, :, None], axis=1)
        return choice, {**search, **changed}

    def score_gain(self, gain: Tensor, tokens: Tensor) -> Tensor:
        return gain / ((5 + tokens) / 6) ** self.length_penalty


def _score(log_probs: Tensor, lengths: Tensor, penalty: Tensor) -> Tensor:
    """Returns the length-normalized score, by which hypotheses are ranked."""
    return log_probs / ((5 + ops.cast(lengths, log_probs.dtype)) / 6) ** penalty


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
