"""A search for the targets of a batch of sources, driven from Python."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_encdec.decoding.attention_history import AttentionHistory
from keras_encdec.decoding.hypothesis import Hypothesis
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search_functions import SearchFunctions
from keras_encdec.text.vocabulary import END, PADDING


class Search:
    """Target sequences that grow together, those of a source in consecutive rows.

    States stay on the device; tokens, and sums of ln p in double precision, are kept here. Sources whose search is
    over are taken out of the batch.

    Args:
        functions: SearchFunctions.
        sampler: Sampler.
        source: int32 array `(sources, time)`, padded ids.
        limits: int array `(sources,)`: tokens of a target at most, its end counted.
        numbers: the sources' numbers among all, for samplers that draw.
        with_attention: bool. Whether hypotheses get their attention. Defaults to `False`.
    """

    def __init__(
        self,
        functions: SearchFunctions,
        sampler: Sampler,
        source: np.ndarray,
        limits: np.ndarray,
        numbers: Sequence[int],
        with_attention: bool = False,
    ) -> None:
        self._functions, self._sampler = functions, sampler
        self._compiled = sampler.step_key, with_attention, source.shape[1]
        sources, rows, steps = len(source), sampler.rows_per_source, int(np.max(limits))
        self._state, self._memory = functions.start(source)
        if rows > 1:
            self._state = _take(self._state, np.repeat(np.arange(sources), rows))
        mask = {"source_mask": source != PADDING} if sampler.needs_attention else {}
        self._search = sampler.initial(np.asarray(limits, np.int32), **mask)
        self._attention = AttentionHistory(np.count_nonzero(source != PADDING, axis=1)) if with_attention else None
        self._words: Any = np.zeros((sources, rows), np.int32)
        self._draws = np.stack([sampler.draws(number, steps) for number in numbers]) if sampler.needs_draws else None
        self._results: list[list[Hypothesis | None]] = [[None] * sampler.results_per_source for _ in range(sources)]
        # Of those that are in the batch:
        self._sources = np.arange(sources)
        self._tokens = np.zeros((sources, rows, steps), np.int32)
        self._log_probs = np.zeros((sources, rows))
        self._length = 0

    def run(self) -> list[list[Hypothesis]]:
        """Searches.

        Returns:
            list, for each source a list of its hypotheses: as the sampler ranks them.
        """
        while True:
            rows = self._step()
            searching = ops.convert_to_numpy(self._search["searching"])
            if not searching.any():
                return [[found for found in results if found is not None] for results in self._results]
            rows = self._compact(searching, rows)
            if rows is not None:
                self._state = _take(self._state, rows)

    def _step(self):
        """Adds a word to each row; the rows that they continue, or `None` where each continues itself."""
        sources, rows = self._log_probs.shape
        draws = None if self._draws is None else np.ascontiguousarray(self._draws[self._sources, self._length])
        chosen, self._search, self._state = self._functions.step(
            self._sampler, self._words, self._search, self._state, self._memory, draws, self._attention is not None
        )
        self._words = chosen["words"]
        choice = {name: ops.convert_to_numpy(values) for name, values in chosen.items()}
        parents = choice.get("parents")
        if self._attention is not None:
            self._attention.add(self._sources, choice["attention"], parents)
        self._keep(choice["kept"], self._log_probs + choice["end_log_probs"])
        if parents is not None and (parents == np.arange(rows)).all():
            parents = None
        before = self._tokens[:, :, : self._length]
        if parents is not None:
            before[:] = np.take_along_axis(before, parents[:, :, None], axis=1)
            self._log_probs = np.take_along_axis(self._log_probs, parents, axis=1)
        self._tokens[:, :, self._length] = choice["words"]
        self._log_probs = self._log_probs + choice["log_probs"]
        self._length += 1
        return None if parents is None else (parents + rows * np.arange(sources)[:, None]).ravel()

    def _keep(self, kept, ended):
        """Keeps hypotheses, from those kept so far and each row with its end: see `Choice.kept`."""
        results = kept.shape[1]
        changed = np.flatnonzero((kept != np.arange(results)).any(axis=1))
        if not len(changed):
            return
        scores = ops.convert_to_numpy(self._search["scores"]) if "scores" in self._search else None
        for index in changed:
            before, after = self._results[self._sources[index]], []
            for rank, which in enumerate(kept[index].tolist()):
                if which < results:
                    after.append(before[which])
                    continue
                row = which - results
                ids = (*self._tokens[index, row, : self._length].tolist(), END)
                log_prob = float(ended[index, row])
                score = log_prob if scores is None else float(scores[index, rank])
                attention = None if self._attention is None else self._attention.of(self._sources[index], row)
                after.append(Hypothesis(ids, log_prob, score, attention))
            self._results[self._sources[index]] = after

    def _compact(self, searching, rows):
        """Takes sources out that are not searched for any more; the rows of the state that are wanted next."""
        sources, copies = self._log_probs.shape
        size = self._functions.batches.reduced(self._compiled, sources, np.count_nonzero(searching), copies)
        if size == sources:
            return rows
        staying = np.sort(np.argsort(~searching, kind="stable")[:size])
        self._sources, self._tokens = self._sources[staying], self._tokens[staying]
        self._log_probs = self._log_probs[staying]
        self._search, self._memory, self._words = (
            _take(tensors, staying) for tensors in (self._search, self._memory, self._words)
        )
        staying_rows = (staying[:, None] * copies + np.arange(copies)).ravel()
        return staying_rows if rows is None else rows[staying_rows]


def _take(tensors, indices):
    return keras.tree.map_structure(lambda tensor: ops.take(tensor, indices, axis=0), tensors)
