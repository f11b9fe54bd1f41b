"""Target sequences for many sources."""

import itertools
import math

import numpy as np

from keras_encdec.data import pad
from keras_encdec.decoding.beam_sampler import GreedySampler
from keras_encdec.decoding.ensemble import Ensemble
from keras_encdec.decoding.search import Search, SearchFunctions
from keras_encdec.models.translation_model import SPECIAL_IDS
from keras_encdec.text.vocabulary import END, PADDING

# Target sequences that are decoded together, at most, unless one source needs more.
ROWS = 768
# A target has at most so many words for each of its source, or as many as a phrase of a word or two may need.
LENGTH_FACTOR, SHORTEST_LIMIT = 1.5, 10
# Source tokens of a batch, padding counted, at most, unless one source has more.
AREA = 1 << 15
# Sources are padded to a multiple of so many tokens, at least.
WIDTHS = 8


class Generator:
    """Generates target sequences with a model or an ensemble.

    What is compiled serves all samplers that choose words alike, whatever else they do.

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
        models = list(models) if isinstance(models, list | tuple) else [models]
        self._functions = SearchFunctions(Ensemble(models, weights, average))
        self._source_ids = models[0].source_words + SPECIAL_IDS

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
            ValueError: when a source is no sequence of the models' ids closed by the end of sequence, the
                sampler is no sampler, a limit is out of range, or the model gives no numbers.
        """
        if sampler == "greedy":
            sampler = GreedySampler()
        if not hasattr(sampler, "choose"):
            raise ValueError(f'found sampler={sampler!r}, expected one of keras_encdec.decoding or "greedy"')
        if not 0 <= max_length_factor < math.inf:
            raise ValueError(f"found max_length_factor={max_length_factor}, expected a number, 0 or more")
        if max_length is not None and max_length < 0:
            raise ValueError(f"found max_length={max_length}, expected 0 or more")
        sources = [_unpadded(source, self._source_ids) for source in sources]
        limits = [_limit(len(source) - 1, max_length_factor, max_length) for source in sources]
        results = [None] * len(sources)
        for places, most in _batches([len(source) for source in sources], max(1, ROWS // sampler.rows)):
            size = min(_rounded(len(places)), most)
            source = _batch([sources[place] for place in places], size)
            # What fills the batch up is over at once.
            filled = [limits[place] for place in places] + [1] * (size - len(places))
            numbers = [first + place for place in places] + [0] * (size - len(places))
            search = Search(self._functions, sampler, source)
            for place, found in zip(places, sampler.run(search, np.array(filled), numbers), strict=False):
                if not found or any(math.isnan(one.log_prob) for one in found):
                    raise ValueError(
                        f"found no probabilities for the source {sources[place]}, expected a model that gives "
                        "numbers; did its training diverge?"
                    )
                results[place] = found
        return results


def _limit(words, factor, max_length):
    """Tokens of the target sequence at most, its end counted."""
    if max_length is not None:
        return max_length + 1
    return max(SHORTEST_LIMIT, math.ceil(factor * words)) + 1 if words else 1


def _unpadded(source, ids):
    if not np.iterable(source):
        raise ValueError(f"found the source {source}, expected a sequence of ids: give a list of sources")
    source = [int(i) for i in source]
    while source and source[-1] == PADDING:
        source.pop()
    if not source or source[-1] != END or not {PADDING, END}.isdisjoint(source[:-1]):
        raise ValueError(f"found the source {source}, expected ids closed by one end of sequence, {END}")
    if not 0 <= min(source) <= max(source) < ids:
        raise ValueError(f"found the source {source}, expected ids below {ids}, which is what the model knows")
    return source


def _batches(lengths, largest):
    """Yields places of sources of like length, and how many the batch may hold at most.

    Long sources are fewer together. Batches that may hold as many are of nearly the same size.
    """

    def most(place):
        return min(largest, _power_below(max(1, AREA // _width(lengths[place]))))

    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for limit, places in itertools.groupby(order, most):
        places = list(places)
        size = -(-len(places) // -(-len(places) // limit))
        for i in range(0, len(places), size):
            yield places[i : i + size], limit


def _batch(sources, size):
    """Sources as one array of so many rows, and of one of few widths."""
    return pad(sources + [[END]] * (size - len(sources)), _width(max(map(len, sources))))


def _width(longest):
    return _rounded(longest, WIDTHS)


def _rounded(number, step=1):
    """A multiple of the step: one of few, as each is compiled, and an eighth too large at most, or a step."""
    while 16 * step < number:
        step *= 2
    return -(-number // step) * step


def _power_below(number):
    return 1 << (number.bit_length() - 1)
