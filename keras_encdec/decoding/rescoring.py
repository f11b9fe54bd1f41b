"""Computes the scores of hypotheses again."""

from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search import Hypothesis, take
from keras_encdec.decoding.search_batches import SearchBatch
from keras_encdec.decoding.search_functions import SearchFunctions
from keras_encdec.models.word_tables import NO_TABLES, WordTables


def with_full_scores(
    functions: SearchFunctions,
    sampler: Sampler,
    batch: SearchBatch,
    found: Sequence[Sequence[Hypothesis]],
    tables: WordTables = NO_TABLES,
    most: int | None = None,
) -> list[list[Hypothesis]]:
    """Computes ln p of hypotheses again, with the probabilities of all words, and ranks them by the new scores.

    Args:
        functions: SearchFunctions.
        sampler: Sampler that found them.
        batch: SearchBatch, the sources.
        found: the hypotheses of each source.
        tables: word tables of the models, see `WordTableCache`. Defaults to none.
        most: int. Rows for each source, at least the largest number of its hypotheses. Functions are compiled for each
            number. Defaults to `None`: that number.

    Returns:
        list with a list of hypotheses for each source, the best first; samples keep their order.
    """
    most = most or max(map(len, found))
    targets = [[hypothesis.ids for hypothesis in hypotheses] for hypotheses in found]
    steps = max((len(ids) for each in targets for ids in each), default=0)
    # The shapes are those of the search, in which missing hypotheses are padding.
    ids = np.zeros((len(found), most, steps), np.int32)
    for row, each in zip(ids, targets, strict=True):
        for column, target in zip(row, each, strict=False):
            column[: len(target)] = target
    state, memory = functions.start(batch.source, batch.characters, tables)
    state = take(state, np.repeat(np.arange(len(found)), most))
    previous, totals = np.zeros((len(found), most), np.int32), np.zeros((len(found), most))
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
