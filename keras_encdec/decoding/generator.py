"""Target sequences for many sources."""

import math

import numpy as np

from keras_encdec.data import pad
from keras_encdec.decoding.beam_sampler import GreedySampler
from keras_encdec.decoding.ensemble import Ensemble
from keras_encdec.decoding.search import Search, SearchFunctions
from keras_encdec.text.vocabulary import END

# Target sequences that are decoded together, at most, unless one source needs more.
ROWS = 768
# A target has at most so many words for each of its source, or as many as a phrase of a word or two may need.
LENGTH_FACTOR, SHORTEST_LIMIT = 1.5, 10
# Sources are padded to a multiple of so many tokens.
WIDTHS = 8


class Generator:
    """Generates target sequences with a model or an ensemble.

    Args:
        models: model, or list of models, such as RNNEncoderDecoder.
        weights: list of float. See `Ensemble`. Optional.
        average: str. See `Ensemble`. Defaults to "arithmetic".

    Raises:
        ValueError: see `Ensemble`.

    Example:

    >>> from keras_encdec.models import RNNEncoderDecoder
    >>> model = RNNEncoderDecoder(20, 30, embedding_dim=4, units=8, maxout_units=4, output_rank=4)
    >>> [[best]] = Generator(model).generate([[5, 6, 2]])
    >>> best.ids[-1]
    2
    """

    def __init__(self, models, weights=None, average="arithmetic"):
        self._ensemble = Ensemble(models if isinstance(models, list) else [models], weights, average)
        self._functions = {}

    def generate(self, sources, sampler="greedy", max_length_factor=LENGTH_FACTOR, max_length=None, first=0):
        """Generates.

        Args:
            sources: list of sequences of ids closed by the end of sequence, or integer array
                `(sources, time)`, padded with 0.
            sampler: `BeamSampler`, `RandomSampler`, or "greedy". Defaults to "greedy".
            max_length_factor: float. A target sequence has at most so many words for each of its source,
                or 10 if that is more; that of an empty source has none. Defaults to `1.5`.
            max_length: int. So many words at most instead, whatever the source. Defaults to `None`.
            first: int. The number of the first source among all, for sampling. Defaults to `0`.

        Returns:
            list, for each source a list of Hypothesis, the best first (samples: as they were drawn).

        Raises:
            ValueError: when a source is not closed by the end of sequence, or the sampler is no sampler.
        """
        if sampler == "greedy":
            sampler = GreedySampler()
        if not hasattr(sampler, "choose"):
            raise ValueError(f'found sampler={sampler!r}, expected one of keras_encdec.decoding or "greedy"')
        sources = [_unpadded(source) for source in sources]
        if sampler not in self._functions:
            self._functions[sampler] = SearchFunctions(self._ensemble, sampler.choose)
        limits = [_limit(len(source) - 1, max_length_factor, max_length) for source in sources]
        results = [None] * len(sources)
        for places in _batches([len(source) for source in sources], max(1, ROWS // sampler.rows)):
            size = _size(len(places), max(1, ROWS // sampler.rows))
            source = _batch([sources[place] for place in places], size)
            # What fills the batch up is over at once.
            filled = [limits[place] for place in places] + [1] * (size - len(places))
            numbers = [first + place for place in places] + [0] * (size - len(places))
            search = Search(self._functions[sampler], source, sampler.rows)
            for place, found in zip(places, sampler.run(search, np.array(filled), numbers), strict=False):
                results[place] = found
        return results


def _limit(words, factor, max_length):
    """Tokens of the target sequence at most, its end counted."""
    if max_length is not None:
        return max_length + 1
    return max(SHORTEST_LIMIT, math.ceil(factor * words)) + 1 if words else 1


def _unpadded(source):
    source = [int(i) for i in source]
    while source and source[-1] == 0:
        source.pop()
    if not source or source[-1] != END or END in source[:-1]:
        raise ValueError(f"found the source {source}, expected ids closed by one end of sequence, {END}")
    return source


def _batches(lengths, largest):
    """Places of sources of like length, in lists of at most so many, all of nearly the same size."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    size = -(-len(order) // -(-len(order) // largest)) if order else 1
    return [order[i : i + size] for i in range(0, len(order), size)]


def _size(number, largest):
    """Rows of a batch for so many sources: one of few sizes, as each is compiled, and an eighth too many at most."""
    step = 1
    while 16 * step < number:
        step *= 2
    return min(-(-number // step) * step, largest)


def _batch(sources, size):
    """Sources as one array of so many rows, and of one of few widths."""
    width = -(-max(map(len, sources)) // WIDTHS) * WIDTHS
    return pad(sources + [[END]] * (size - len(sources)), width)
