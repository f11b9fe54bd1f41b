"""Log-probabilities of many sequences by a language model of limited context."""

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.backend.log_sum_exp import SAFE
from keras_encdec.models.language_model import LanguageModel
from keras_encdec.scoring.distinct_ngrams import DistinctNgrams
from keras_encdec.scoring.ngram_counts import NgramCounts
from keras_encdec.scoring.ngram_decoder import NgramDecoder
from keras_encdec.scoring.ngram_groups import NgramGroup, cut_ngrams
from keras_encdec.scoring.word_product_tables import WordProductTables


class NgramScorer:
    """Scores sequences as the model's `score` does, every distinct n-gram among them once, in large batches.

    Args:
        model: LanguageModel whose decoder has a `context_length`.
        run: callable of a function and items to its results in their order, such as `map`.

    Attributes:
        counts: NgramCounts of all that was scored.
    """

    def __init__(
        self, model: LanguageModel, run: Callable[[Callable, Iterable[NgramGroup]], Iterator[np.ndarray]] = map
    ) -> None:
        self._context_length = model.decoder.context_length
        # By whether the maximum of the logits is subtracted.
        self._decoders = {careful: compiled_call(NgramDecoder(model, careful)) for careful in (False, True)}
        self._tables = WordProductTables(model)
        self._careful, self._run = False, run
        self.counts, self._lock = NgramCounts(), threading.Lock()

    def token_log_probs(self, rows: np.ndarray) -> np.ndarray:
        """ln p of each token.

        Args:
            rows: int array `(sequences, width)`, closed by the end of sequence and padded with 0.

        Returns:
            float64 array of the same shape, nats, 0 on padding.
        """
        ngrams = DistinctNgrams(rows, self._context_length)
        ngrams.contexts, table = self._tables.contexts_and_table(ngrams.contexts)
        log_probs = np.concatenate(list(self._run(functools.partial(self._log_probs, table), cut_ngrams(ngrams))))
        inside = rows != 0
        with self._lock:
            self.counts += NgramCounts(int(np.count_nonzero(inside)), len(ngrams.words), len(ngrams.contexts))
        return np.where(inside, log_probs[ngrams.numbers], 0.0)

    def _log_probs(self, table: Any, group: NgramGroup) -> np.ndarray:
        inputs = group.inputs if table is None else (*group.inputs, table)

        def decode(careful):
            return map(ops.convert_to_numpy, self._decoders[careful](*inputs))

        if not self._careful:
            logits, totals = decode(careful=False)
            if (np.abs(totals[: group.contexts]) < SAFE).all():
                return group.log_probs(logits, totals)
            self._careful = True
        return group.log_probs(*decode(careful=True))
