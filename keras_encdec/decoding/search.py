"""The search for the targets of a batch of sources, driven from Python, and the scores of targets with all words."""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.types import Structure, Tensor
from keras_encdec.decoding.ensemble import SearchFunctions
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search_batches import SearchBatch
from keras_encdec.models.word_tables import NO_TABLES, WordTables
from keras_encdec.text.vocabulary import END, PADDING


class AttentionHistory:
    """The attention of all rows of a search, and which rows they continued.

    Args:
        source_lengths: int array `(sources,)`: number of tokens of each source, the end of sequence included.
    """

    def __init__(self, source_lengths: np.ndarray) -> None:
        self._lengths = source_lengths
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray | None]] = []

    def add(self, sources: np.ndarray, attention: np.ndarray, parents: np.ndarray | None) -> None:
        """Adds a step.

        Args:
            sources: int array `(n,)`: the sources in the batch.
            attention: float array `(n, rows, source_time)`, with which the next words were predicted.
            parents: int array `(n, rows)`: which row each row continues; `None` if each continues itself.
        """
        indices = np.full(len(self._lengths), -1)
        indices[sources] = np.arange(len(sources))
        self._steps.append((indices, attention, parents))

    def of_row(self, source: int, row: int) -> np.ndarray:
        """Returns the attention of a row that the last step ends: `(tokens, source_tokens)`.

        Args:
            source: int. The source of the row.
            row: int. The row before the last step. The end of sequence is the last of its tokens.
        """
        length = self._lengths[source]
        token_attention = np.empty((len(self._steps), length), self._steps[0][1].dtype)
        for token in reversed(range(len(self._steps))):
            indices, attention, parents = self._steps[token]
            index = indices[source]
            if parents is not None and token + 1 < len(self._steps):
                row = parents[index, row]
            token_attention[token] = attention[index, row, :length]
        return token_attention


class Hypothesis(NamedTuple):
    """A target sequence that was generated.

    Attributes:
        ids: tuple of int, closed by the end of sequence.
        log_prob: float. ln p(ids | source) in nats, equal to the model's `score`; for an ensemble that of the
            averaged probabilities. With candidate words, probabilities are normalized over these, unless the
            hypotheses are scored again, see `Generator.generate`.
        score: float. The score by which hypotheses are ranked: `log_prob`, or as the sampler defines it. If
            translations compete with spellings, it includes ln of their weighted sum, see `UnknownSpeller`.
        attention: float32 array `(tokens, source_tokens)`, the weight of each source token for each token, ends of
            sequence included; `None` if it was not requested.
        spellings: tuple with a tuple for each unknown word, in order: the ids of its characters, closed by the end
            mark. Empty for a model that spells no words. `log_prob` includes ln p of the characters, and so does
            `score` without translations.
        spelling_log_prob: float. ln p of the characters alone, in nats.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    attention: np.ndarray | None = None
    spellings: tuple[tuple[int, ...], ...] = ()
    spelling_log_prob: float = 0.0


class Search:
    """A search for the targets of a batch of sources; the rows of a source are consecutive.

    States stay on the device. The tokens are NumPy arrays, and so are the sums of ln p, in double precision. Sources
    whose search is over are removed from the batch.

    Args:
        functions: SearchFunctions.
        sampler: Sampler.
        batch: SearchBatch, the sources.
        with_attention: bool. Whether to return the attention with each hypothesis. Defaults to `False`.
        tables: word tables of the models, see `WordTableCache`. Defaults to none.
    """

    def __init__(
        self,
        functions: SearchFunctions,
        sampler: Sampler,
        batch: SearchBatch,
        with_attention: bool = False,
        tables: WordTables = NO_TABLES,
    ) -> None:
        source, limits, candidates = batch.source, batch.limits, batch.candidates
        self._functions, self._sampler, self._tables = functions, sampler, tables
        self._compiled = sampler.step_key, with_attention, source.shape[1], candidates and candidates.words.shape
        self._candidates = functions.candidates(candidates) if candidates else {}
        sources, rows, steps = len(source), sampler.rows_per_source, int(np.max(limits))
        # The number of groups of neighbouring sources that share their candidates. When sources whose search is over
        # are removed, all groups keep the same number of sources.
        self._groups = len(candidates.words) if candidates and len(candidates.words) < sources else 1
        self._state, self._memory = functions.start(source, batch.characters, tables)
        if rows > 1:
            self._state = take(self._state, np.repeat(np.arange(sources), rows))
        mask = {"source_mask": source != PADDING} if sampler.needs_attention else {}
        self._search = sampler.initial(np.asarray(limits, np.int32), **mask)
        self._attention = AttentionHistory(np.count_nonzero(source != PADDING, axis=1)) if with_attention else None
        self._words: Tensor = np.zeros((sources, rows), np.int32)
        self._draws = (
            np.stack([sampler.draws(index, steps) for index in batch.input_indices]) if sampler.needs_draws else None
        )
        self._results: list[list[Hypothesis | None]] = [[None] * sampler.results_per_source for _ in range(sources)]
        # These hold only the sources that are still in the batch.
        self._sources = np.arange(sources)
        self._tokens = np.zeros((sources, rows, steps), np.int32)
        self._log_probs = np.zeros((sources, rows))
        self._length = 0

    def run(self) -> list[list[Hypothesis]]:
        """Runs the search to its end.

        Returns:
            list, for each source a list of its hypotheses in the sampler's order.
        """
        while True:
            rows = self._step()
            searching = ops.convert_to_numpy(self._search["searching"])
            if not searching.any():
                return [[result for result in results if result is not None] for results in self._results]
            rows = self._compact(searching, rows)
            if rows is not None:
                self._state = take(self._state, rows)

    def _step(self) -> np.ndarray | None:
        """Adds a word to each row; returns which rows they continue, or `None` if each continues itself."""
        sources, rows = self._log_probs.shape
        draws = None if self._draws is None else np.ascontiguousarray(self._draws[self._sources, self._length])
        chosen, self._search, self._state = self._functions.step(
            self._sampler,
            self._words,
            self._search,
            self._state,
            self._memory,
            draws,
            self._attention is not None,
            self._candidates,
            self._tables,
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

    def _keep(self, kept: np.ndarray, ended: np.ndarray) -> None:
        """Updates the kept hypotheses, see `Choice.kept`; `ended` is ln p of each row closed by the end."""
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
                attention = None if self._attention is None else self._attention.of_row(self._sources[index], row)
                after.append(Hypothesis(ids, log_prob, score, attention))
            self._results[self._sources[index]] = after

    def _compact(self, searching: np.ndarray, rows: np.ndarray | None) -> np.ndarray | None:
        """Removes sources whose search is over; returns the rows of the state to continue, `None` for all rows."""
        sources, copies = self._log_probs.shape
        needed = self._groups * int(np.count_nonzero(searching.reshape(self._groups, -1), axis=1).max())
        size = self._functions.batches.reduced(self._compiled, sources, needed, copies)
        if size == sources or size % self._groups:
            return rows
        staying = _staying(searching, self._groups, size)
        self._sources, self._tokens = self._sources[staying], self._tokens[staying]
        self._log_probs = self._log_probs[staying]
        self._search, self._memory, self._words = (
            take(tensors, staying) for tensors in (self._search, self._memory, self._words)
        )
        self._candidates = keras.tree.map_structure(
            # A tensor that the sources of a group share has a row for each group.
            lambda tensor: tensor if len(tensor) == self._groups else ops.take(tensor, staying, axis=0),
            self._candidates,
        )
        staying_rows = (staying[:, None] * copies + np.arange(copies)).ravel()
        return staying_rows if rows is None else rows[staying_rows]


def _staying(searching: np.ndarray, groups: int, size: int) -> np.ndarray:
    """Chooses `size` sources, equally many in each group: all whose search is not over, filled up with others."""
    in_groups = searching.reshape(groups, -1)
    chosen = np.sort(np.argsort(~in_groups, axis=1, kind="stable")[:, : size // groups], axis=1)
    return (chosen + np.arange(0, len(searching), in_groups.shape[1])[:, None]).ravel()


def take(tensors: Structure, indices: np.ndarray) -> Structure:
    """Returns rows of all tensors in a structure."""
    return keras.tree.map_structure(lambda tensor: ops.take(tensor, indices, axis=0), tensors)


def with_full_scores(
    functions: SearchFunctions,
    sampler: Sampler,
    batch: SearchBatch,
    found: Sequence[Sequence[Hypothesis]],
    tables: WordTables = NO_TABLES,
    rows: int | None = None,
) -> list[list[Hypothesis]]:
    """Computes ln p of hypotheses again, with the probabilities of all words, and ranks them by the new scores.

    Args:
        functions: SearchFunctions.
        sampler: Sampler that found them.
        batch: SearchBatch, the sources.
        found: the hypotheses of each source.
        tables: word tables of the models, see `WordTableCache`. Defaults to none.
        rows: int. Rows for each source, at least the largest number of hypotheses of a source. Functions are compiled
            for each number. Defaults to `None`: that largest number.

    Returns:
        list with a list of hypotheses for each source, the best first; samples keep their order.
    """
    rows = rows or max(map(len, found))
    targets = [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]
    steps = max((len(ids) for each in targets for ids in each), default=0)
    # The shapes are those of the search, in which missing hypotheses are padding.
    ids = np.zeros((len(found), rows, steps), np.int32)
    for row, each in zip(ids, targets, strict=True):
        for column, target in zip(row, each, strict=False):
            column[: len(target)] = target
    state, memory = functions.start(batch.source, batch.characters, tables)
    state = take(state, np.repeat(np.arange(len(found)), rows))
    previous, totals = np.zeros((len(found), rows), np.int32), np.zeros((len(found), rows))
    for step in range(steps):
        words = ids[:, :, step]
        log_probs, state = functions.log_probs(previous, words, state, memory, tables)
        totals += np.where(words != 0, ops.convert_to_numpy(log_probs), 0.0)
        previous = words
    rescored = [
        [_rescored(hypothesis, float(total), sampler) for hypothesis, total in zip(hypotheses, row, strict=False)]
        for hypotheses, row in zip(found, totals, strict=True)
    ]
    if sampler.needs_draws:
        return rescored
    return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in rescored]


def _rescored(hypothesis: Hypothesis, log_prob: float, sampler: Sampler) -> Hypothesis:
    gain = log_prob - hypothesis.log_prob
    return hypothesis._replace(
        log_prob=log_prob, score=hypothesis.score + sampler.score_gain(gain, len(hypothesis.ids))
    )
