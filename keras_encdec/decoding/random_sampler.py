"""Ancestral sampling."""

import dataclasses
from typing import ClassVar

import numpy as np

from keras_encdec.backend.operations import ops
from keras_encdec.backend.types import SearchState, Tensor
from keras_encdec.configuration import hyperparameter
from keras_encdec.decoding.sampler import SUPPRESS_UNKNOWN, Sampler

# Number of words whose probabilities are summed first when a word is drawn, see `drawn`.
BLOCK = 128
# Steps of the bisection that finds the smallest probability in a nucleus: enough for float32's last bit.
HALVINGS = 32
# Temperatures are clipped to these bounds, as float32 cannot hold much smaller or larger numbers. At the lower bound
# only the most probable word is drawn; at the upper bound all words are equally probable.
COLDEST = 1e-30
HOTTEST = 1e30


@dataclasses.dataclass(frozen=True)
class RandomSampler(Sampler):
    """Ancestral sampling: target sequences drawn word by word from the model's probabilities.

    Samples depend on the seed and on the index of the source in the input, not on the batch or the backend, except
    where probabilities differ in their last bits.

    Args:
        num_samples: int. Number of samples per source. Defaults to `50`.
        temperature: float. Divides the logits: below 1, probable words become more probable. Defaults to `1.0`.
        top_k: int. Number of most probable words to draw from. Defaults to `None`: all words.
        top_p: float. Total probability of the most probable words to draw from. Defaults to `1.0`: all words.
        seed: int. Defaults to `0`.
        suppress_unknown: bool. Whether to exclude the unknown word. Defaults to `False`.

    Raises:
        ValueError: if a number is out of range.

    Reference:
        - Cho et al., 2014 (arXiv 1406.1078), section 4.3: 50 samples per phrase
        - Holtzman et al., 2020 (arXiv 1904.09751): the nucleus, `top_p`
    """

    needs_draws: ClassVar[bool] = True
    search_options: ClassVar[tuple[str, ...]] = ("temperature", "seed")

    num_samples: int = hyperparameter(
        50, "Samples to draw for each source.", minimum=1, published={"Cho et al., 2014, section 4.3": 50}
    )
    temperature: float = hyperparameter(
        1.0, "Sampling temperature; below 1, probable words become more probable.", above=0
    )
    top_k: int | None = hyperparameter(
        None, "Draw only from this number of most probable words. Default: all words.", minimum=1
    )
    top_p: float = hyperparameter(
        1.0, "Nucleus sampling: draw from the most probable words with this total probability.", above=0, maximum=1
    )
    seed: int = hyperparameter(0, "Random seed; equal seeds draw the same samples.", minimum=0)
    suppress_unknown: bool = hyperparameter(False, SUPPRESS_UNKNOWN)

    @property
    def rows_per_source(self) -> int:
        return self.num_samples

    def initial(self, limits: Tensor, temperature: Tensor | None = None) -> SearchState:
        """See `Sampler.initial`.

        Args:
            limits: int32 `(sources,)`.
            temperature: float tensor `(sources,)`, one for each source. Defaults to `None`: the sampler's.
        """
        search = super().initial(limits)
        zeros = ops.zeros_like(search["limits"], dtype="float32")
        if temperature is None:
            temperature = float(np.clip(self.temperature, COLDEST, HOTTEST))
        return {**search, "temperature": zeros + temperature}

    def choose(self, log_probs: Tensor, search: SearchState, draws: Tensor | None = None) -> Tensor:
        vocabulary = log_probs.shape[-1]
        temperatures = ops.repeat(search["temperature"], self.num_samples, axis=0)[:, None]
        log_probs, words = self.allowed(log_probs, end=True), None
        if self.top_k is not None and self.top_k < vocabulary:
            # The order of the words stays, so that a draw chooses the same word as it would among all words.
            words = ops.sort(ops.cast(ops.top_k(log_probs, self.top_k)[1], "int32"), axis=-1)
            log_probs = ops.take_along_axis(log_probs, words, axis=1)
        probabilities = tempered(log_probs, temperatures)
        if self.top_p < 1:
            probabilities = _nucleus(probabilities, self.top_p)
        chosen = drawn(probabilities, ops.reshape(draws, (-1,)))
        return chosen if words is None else ops.take_along_axis(words, chosen[:, None], axis=1)[:, 0]

    def character_sampler(self) -> Sampler:
        return self.replace(num_samples=1, suppress_unknown=False)

    def draws(self, number: int, steps: int) -> np.ndarray:
        return np.random.default_rng([self.seed, number]).random((steps, self.num_samples)).astype(np.float32)


def _nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    """Keeps the probabilities of the fewest words whose sum is `top_p` of the whole; sets all others to 0."""
    wanted = top_p * ops.sum(probabilities, axis=-1, keepdims=True)
    low = ops.zeros_like(wanted)
    high = ops.max(probabilities, axis=-1, keepdims=True)
    # Bisection finds the largest threshold above which the sum is enough; sorting would take far longer.
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = ops.sum(ops.where(probabilities >= middle, probabilities, 0.0), axis=-1, keepdims=True) >= wanted
        low, high = ops.where(enough, middle, low), ops.where(enough, high, middle)
    return ops.where(probabilities >= low, probabilities, 0.0)


def tempered(log_probs: Tensor, temperatures: Tensor) -> Tensor:
    """Computes unnormalized probabilities at a temperature, scaled so that the largest in each row is 1.

    Args:
        log_probs: float tensor `(rows, vocabulary)`.
        temperatures: float, or float tensor `(rows, 1)`.

    Returns:
        float tensor `(rows, vocabulary)`.
    """
    # The maximum is subtracted before the division, which might make all values -inf.
    below = log_probs - ops.max(log_probs, axis=-1, keepdims=True)
    return ops.exp(ops.divide(below, ops.clip(temperatures, COLDEST, HOTTEST)))


def drawn(probabilities: Tensor, draws: Tensor) -> Tensor:
    """Draws a word for each row by inverse transform sampling.

    Args:
        probabilities: float tensor `(rows, vocabulary)`, not necessarily normalized.
        draws: float tensor `(rows,)` of random numbers from [0, 1).

    Returns:
        int32 tensor `(rows,)`, the ids of the words.
    """
    # First find the block of words that a draw falls into, then the word in it: a cumulative sum over all words would
    # take far longer.
    words = probabilities.shape[-1]
    padded = ops.pad(probabilities, [[0, 0], [0, -words % BLOCK]])
    blocks = ops.reshape(padded, (-1, -(-words // BLOCK), BLOCK))
    ends = ops.cumsum(ops.sum(blocks, axis=-1), axis=-1)
    # Below the sum of the row even after rounding.
    aim = ops.minimum(draws, 1 - 1e-7)[:, None] * ends[:, -1:]
    block = ops.sum(ops.cast(ends <= aim, "int32"), axis=-1, keepdims=True)
    within = ops.take_along_axis(blocks, block[:, :, None], axis=1)[:, 0]
    before = ops.take_along_axis(ends, block, axis=1) - ops.sum(within, axis=-1, keepdims=True)
    shares = ops.cumsum(within, axis=-1)
    # Rounding must not lead past the last word with a probability above 0.
    possible = within > 0
    last = BLOCK - 1 - ops.argmax(ops.flip(possible, axis=-1), axis=-1)
    index = ops.sum(ops.cast(shares <= aim - before, "int32"), axis=-1)
    return ops.cast(block[:, 0] * BLOCK, "int32") + ops.minimum(index, ops.cast(last, "int32"))
