"""Ancestral sampling."""

import dataclasses
import math

import numpy as np
from keras import ops

from keras_encdec.decoding.barred_words import barred
from keras_encdec.decoding.hypothesis import Hypothesis
from keras_encdec.text.vocabulary import END, PADDING, UNKNOWN

# Words whose probabilities are added up at a time, where a draw is looked up.
BLOCK = 128
# Halvings of the interval that the least probability of a nucleus lies in: to float32's last bit.
HALVINGS = 32
# A temperature below is as good as this, at which only the most probable word is drawn, and float32 has no such number.
COLDEST = 1e-30


@dataclasses.dataclass(frozen=True)
class RandomSampler:
    """Target sequences drawn word by word from the model's probabilities.

    What is drawn depends on the seed and on the source's number among all, not on the batch or the
    backend (but for probabilities that differ in their last bits).

    Args:
        num_samples: int. Sequences a source. Defaults to `1`.
        temperature: float. Logits are divided by it: below 1 the probable becomes more so. Defaults to `1.0`.
        top_k: int. Only so many of the most probable words are drawn from. Defaults to `None`: all.
        top_p: float. Only the most probable words that have this probability together are drawn from.
            Defaults to `1.0`: all.
        seed: int. Defaults to `0`.
        suppress_unknown: bool. Whether the unknown word is never drawn. Defaults to `False`.

    Raises:
        ValueError: when a number is out of its range.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.3: 50 samples a phrase
        - Holtzman et al., 2020 (arXiv 1904.09751): the nucleus, `top_p`
    """

    num_samples: int = 1
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0
    suppress_unknown: bool = False

    def __post_init__(self):
        if self.num_samples < 1:
            raise ValueError(f"found num_samples={self.num_samples}, expected 1 or more")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"found temperature={self.temperature}, expected a number above 0")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"found top_k={self.top_k}, expected 1 or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"found top_p={self.top_p}, expected more than 0 and at most 1")
        if self.seed < 0:
            raise ValueError(f"found seed={self.seed}, expected 0 or more")

    @property
    def rows(self):
        """int. Target sequences that are decoded together for a source."""
        return self.num_samples

    @property
    def key(self):
        """All that `choose` depends on."""
        return "random", self.temperature, self.top_k, self.top_p, self.suppress_unknown

    def choose(self, log_probs, draws):
        """A word for each row by a draw from [0, 1), its log p, and log p of the end."""
        words = log_probs.shape[-1]
        allowed = barred(log_probs, [PADDING] + [UNKNOWN] * self.suppress_unknown)
        probabilities = tempered(allowed, self.temperature)
        if self.top_k is not None and self.top_k < words:
            least = ops.top_k(probabilities, self.top_k)[0][:, -1:]
            probabilities = ops.where(probabilities >= least, probabilities, 0.0)
        if self.top_p < 1:
            probabilities = _nucleus(probabilities, self.top_p)
        chosen = drawn(probabilities, draws)
        return [chosen, ops.take_along_axis(log_probs, chosen[:, None], axis=1)[:, 0], log_probs[:, END]]

    def run(self, search, limits, numbers):
        """Draws.

        Args:
            search: Search of `num_samples` copies of each source.
            limits: int array `(sources,)`, tokens of a target sequence at most; one that reaches it ends there.
            numbers: int array `(sources,)`, the sources' numbers among all.

        Returns:
            list, for each source the list of its Hypothesis, in the order in which they were drawn.
        """
        copies, rows = self.num_samples, len(limits) * self.num_samples
        limits = np.repeat(limits, copies)
        # Step by step, so that those of one source do not depend on how long the others may become.
        draws = [np.random.default_rng([self.seed, number]).random((max(limits), copies)) for number in numbers]
        draws = np.concatenate(draws, axis=1).astype(np.float32)
        ids, log_probs, going = [[] for _ in range(rows)], np.zeros(rows), np.ones(rows, bool)
        words = np.zeros(rows, np.int32)
        for t in range(max(limits)):
            words, values, ends = search.step(words, draws[t])
            last = limits == t + 1
            words, values = np.where(last, END, words).astype(np.int32), np.where(last, ends, values)
            log_probs[going] += values[going]
            for row in np.flatnonzero(going):
                ids[row].append(int(words[row]))
            going &= words != END
            if not going.any():
                break
        found = [Hypothesis(tuple(row), float(value), float(value)) for row, value in zip(ids, log_probs, strict=True)]
        return [found[i : i + copies] for i in range(0, rows, copies)]


def _nucleus(probabilities, top_p):
    """The probabilities of the fewest words that have `top_p` of all together, 0 for others."""
    wanted = top_p * ops.sum(probabilities, axis=-1, keepdims=True)
    low = ops.zeros_like(wanted)
    high = ops.max(probabilities, axis=-1, keepdims=True)
    # The largest bound above which there is enough; sorting would take far longer.
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = ops.sum(ops.where(probabilities >= middle, probabilities, 0.0), axis=-1, keepdims=True) >= wanted
        low, high = ops.where(enough, middle, low), ops.where(enough, high, middle)
    return ops.where(probabilities >= low, probabilities, 0.0)


def tempered(log_probs, temperatures):
    """Probabilities at a temperature, the largest of each row 1.

    Args:
        log_probs: float tensor `(rows, vocabulary)`.
        temperatures: float, or float tensor `(rows, 1)`.
    """
    # The maximum is subtracted first: divided first, all might be -inf.
    below = log_probs - ops.max(log_probs, axis=-1, keepdims=True)
    return ops.exp(ops.divide(below, ops.maximum(temperatures, COLDEST)))


def drawn(probabilities, draws):
    """Words by inverse transform sampling.

    Args:
        probabilities: float tensor `(rows, vocabulary)`, not necessarily of sum one.
        draws: float tensor `(rows,)`, from [0, 1), each a share of the sum of its row.

    Returns:
        int32 tensor `(rows,)`.
    """
    # First the block that a draw falls into, then the word in it: adding up all words would take far longer.
    words = probabilities.shape[-1]
    padded = ops.pad(probabilities, [[0, 0], [0, -words % BLOCK]])
    blocks = ops.reshape(padded, (-1, -(-words // BLOCK), BLOCK))
    ends = ops.cumsum(ops.sum(blocks, axis=-1), axis=-1)
    # Below the whole, whatever is lost in rounding.
    aim = ops.minimum(draws, 1 - 1e-7)[:, None] * ends[:, -1:]
    block = ops.sum(ops.cast(ends <= aim, "int32"), axis=-1, keepdims=True)
    within = ops.take_along_axis(blocks, block[:, :, None], axis=1)[:, 0]
    before = ops.take_along_axis(ends, block, axis=1) - ops.sum(within, axis=-1, keepdims=True)
    places = ops.cumsum(within, axis=-1)
    # Never a word of probability 0, before the first or after the last that has any.
    possible = within > 0
    last = BLOCK - 1 - ops.argmax(ops.flip(possible, axis=-1), axis=-1)
    place = ops.sum(ops.cast(places <= aim - before, "int32"), axis=-1)
    return ops.cast(block[:, 0] * BLOCK, "int32") + ops.minimum(place, ops.cast(last, "int32"))
