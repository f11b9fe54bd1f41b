"""What a beam search has found so far, on the host."""

import keras
import numpy as np

from keras_encdec.decoding.hypothesis import Hypothesis
from keras_encdec.text.vocabulary import END

# Smaller batches take no less time.
LEAST_ROWS = 48


class Beams:
    """The partial sequences of a batch of sources, and those that ended.

    Args:
        sampler: BeamSampler.
        limits: int array `(sources,)`, tokens of a target sequence at most, its end counted.

    Attributes:
        searching: boolean array `(places,)`: at which places the search for a source goes on.
    """

    def __init__(self, sampler, limits):
        self._sampler, self._limits, self._length = sampler, np.asarray(limits), 0
        self._finished = [[] for _ in limits]
        self._sources = np.arange(len(limits))  # at each place
        self.searching = np.ones(len(limits), bool)
        # At first all the beams of a source are the same: one counts.
        self._totals = np.where(np.arange(sampler.num_beams) == 0, 0.0, -np.inf) + np.zeros((len(limits), 1))
        self._tokens = np.zeros((*self._totals.shape, 1), np.int32)

    @property
    def words(self):
        """int32 array `(places * num_beams,)`: the last word of each partial sequence, 0 of an empty one."""
        return self._tokens[:, :, -1].ravel()

    def best(self):
        """The hypotheses of each source: list of lists of Hypothesis, the best first."""
        return [found[: self._sampler.num_best] for found in self._finished]

    def advance(self, values, words, ends):
        """Takes a step.

        Args:
            values: float array `(places * num_beams, k)`, log p of the best words of each row.
            words: int array, likewise, those words.
            ends: float array `(places * num_beams,)`, log p of the end.

        Returns:
            int array `(places * num_beams,)`, the row that each of them goes on from.
        """
        places, beams = self._totals.shape
        self._length += 1
        continued = (self._totals.reshape(-1, 1) + values).reshape(places, -1)
        continued[self._limits[self._sources] <= self._length] = -np.inf
        order = np.argsort(-continued, axis=1, kind="stable")[:, :beams]
        self._end(np.take_along_axis(continued, order, axis=1), self._totals + ends.reshape(places, beams))
        self._totals = np.take_along_axis(continued, order, axis=1)
        parents, which = np.divmod(order, words.shape[1])
        place = np.arange(places)[:, None]
        chosen = words.reshape(places, beams, -1)[place, parents, which]
        self._tokens = np.concatenate([self._tokens[place, parents], chosen[:, :, None]], axis=2)
        self._stop()
        return (place * beams + parents).ravel()

    def _end(self, continued, ended):
        """Keeps those ends apart that are among the best `num_beams` of all continuations."""
        beams = ended.shape[1]
        least = np.sort(np.concatenate([continued, ended], axis=1), axis=1)[:, -beams, None]
        for place, beam in zip(*np.nonzero((ended >= least) & np.isfinite(ended)), strict=True):
            log_prob = float(ended[place, beam])
            ids = (*self._tokens[place, beam, 1:].tolist(), END)
            found = self._finished[self._sources[place]]
            found.append(Hypothesis(ids, log_prob, self._sampler.normalized(log_prob, len(ids))))
            found.sort(key=lambda one: -one.score)

    def _stop(self):
        """Ends the search for sources whose partial sequences cannot become better than what has ended."""
        best = self._totals.max(axis=1)
        for place in np.flatnonzero(self.searching):
            source = self._sources[place]
            found, needed = self._finished[source], self._sampler.num_best
            # log p falls with every word; a longer sequence may be divided by more, at most at the limit.
            possible = self._sampler.normalized(best[place], self._limits[source])
            if not np.isfinite(best[place]) or len(found) >= needed and found[needed - 1].score >= possible:
                self.searching[place] = False
                self._totals[place] = -np.inf

    def compacted(self):
        """Drops places that are not searched at, if that makes the batch half as large, again and again.

        Fewer sizes are less to compile; where nothing is compiled, they are dropped as soon as they are an eighth.
        Returns the rows that stay, int array, or `None` for all.
        """
        places, beams = self._totals.shape
        size, needed = places, np.count_nonzero(self.searching)
        if keras.backend.backend() == "torch":
            size = needed if needed <= places * 7 // 8 else places
        while needed <= size // 2 >= LEAST_ROWS // beams:
            size //= 2
        if size == places:
            return None
        kept = np.sort(np.argsort(~self.searching, kind="stable")[:size])
        self.searching, self._sources = self.searching[kept], self._sources[kept]
        self._totals, self._tokens = self._totals[kept], self._tokens[kept]
        return (kept[:, None] * beams + np.arange(beams)).ravel()
