"""Log-probabilities of many pairs."""

import concurrent.futures

import numpy as np
from keras import ops

from keras_encdec.data import pad
from keras_encdec.in_order import in_order
from keras_encdec.models import RNNEncoderDecoder
from keras_encdec.models.translation_model import SPECIAL_IDS
from keras_encdec.scoring.batch_encoder import BatchEncoder
from keras_encdec.scoring.compiled import compiled_call, xla_on_cpu
from keras_encdec.scoring.groups import groups
from keras_encdec.scoring.prefix_encoder import PrefixEncoder
from keras_encdec.scoring.walk import Walk
from keras_encdec.text.vocabulary import END

# The sum of exp of all logits that is computed without their maximum is exact between these, in nats.
SAFE = 60.0
# Slots of a group for states, fewer if these would take more bytes.
SLOTS, BYTES = 1 << 15, 1 << 28
# Ids in memory as one padded array.
AREA = 1 << 22


class Scorer:
    """Scores pairs as the model's `score` does, every state of the decoder computed once.

    Among the pairs it is given together, the targets of a source share the decoder's states of the
    prefixes they have in common, and what depends on the source alone is computed once a source; the
    sources of an `RNNEncoderDecoder` share the encoder's states likewise. No padding of a target is
    computed. A score does not depend on what it is scored with.

    Args:
        model: TranslationModel, such as RNNEncoderDecoder.
        dtype: str. What to compute in, "float32" or "bfloat16"; log-probabilities are summed in float32
            at least. Defaults to `None`: the model's own compute dtype.
    """

    def __init__(self, model, dtype=None):
        self.model = model
        computed = in_dtype(model, dtype or model.compute_dtype)
        self._slots = SLOTS
        while 4 * self._slots * sum(computed.decoder.state_sizes) > BYTES:
            self._slots //= 2
        self._sources = self._slots // 8
        if isinstance(model, RNNEncoderDecoder):
            self._encoder = PrefixEncoder(computed, self._slots, self._sources)
        else:
            self._encoder = BatchEncoder(computed, self._sources)
        self._walk = compiled_call(Walk(computed.decoder))
        self._careful_walk = compiled_call(Walk(computed.decoder, careful=True))
        self._careful = False
        # Two groups at a time: one computes while the other waits for memory. PyTorch would double its threads.
        self._workers = 2 if xla_on_cpu() else 1
        self._executor = concurrent.futures.ThreadPoolExecutor(self._workers)

    def close(self):
        """Drops what is still to be computed: calls in other threads fail, and further ones."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def score(self, pairs):
        """log p(y | x) of each pair, end of sequence included, no length normalization.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.

        Returns:
            float64 array `(n,)`, nats.

        Raises:
            ValueError: for a sequence that is not closed by the end of sequence, or has ids that the model
                has not.
        """
        scores = np.empty(len(pairs))
        for places, log_probs, _ in self._scored(pairs):
            scores[places] = log_probs.sum(axis=1)
        return scores

    def token_scores(self, pairs):
        """log p(y_t | y_<t, x) of each target token of each pair, the end of sequence last.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.

        Returns:
            list of n float64 arrays, each as long as its target, nats.

        Raises:
            ValueError: see `score`.
        """
        tokens = [None] * len(pairs)
        for places, log_probs, lengths in self._scored(pairs):
            for place, row, length in zip(places, log_probs, lengths, strict=True):
                tokens[place] = row[:length]
        return tokens

    def _scored(self, pairs):
        """Yields some places among the pairs, their token log-probabilities `(n, longest)`, and lengths."""
        for places, group, results in in_order(self._executor, self._walked, self._groups(pairs), self._workers):
            yield places, group.log_probs(results), group.lengths

    def _groups(self, pairs):
        """Yields some places among the pairs, and a group of the pairs there."""
        for places in _cut(pairs):
            distinct, inside = {}, np.empty(len(places), np.int64)
            for i, place in enumerate(places):
                inside[i] = distinct.setdefault(tuple(pairs[place][0]), len(distinct))
            sources, targets = _padded(list(distinct)), _padded([pairs[place][1] for place in places])
            _check("source", *sources, self.model.source_words + SPECIAL_IDS)
            _check("target", *targets, self.model.target_words + SPECIAL_IDS)
            for group in groups(*sources, inside, *targets, self._slots, self._sources):
                yield places[group.pairs], group

    def _walked(self, item):
        places, group = item
        started = self._encoder.start(group.sources, group.source_lengths)
        if not self._careful:
            results = ops.convert_to_numpy(self._walk(*group.inputs, *started))
            if (np.abs(results[2, group.paths]) < SAFE).all():
                return places, group, results
            self._careful = True
        return places, group, ops.convert_to_numpy(self._careful_walk(*group.inputs, *started))


def in_dtype(model, dtype):
    """The model itself, or one that holds its weights in another dtype and computes in it."""
    if model.dtype_policy.name == dtype:
        return model
    other = type(model).from_config({**model.get_config(), "dtype": dtype})
    for weight, original in zip(other.weights, model.weights, strict=True):
        weight.assign(ops.cast(original, weight.dtype))
    return other


def _cut(pairs):
    """Places of the pairs, in parts whose padded arrays are not too large: all at once unless some are long."""
    longest = np.fromiter((max(map(len, pair)) for pair in pairs), np.int64, len(pairs))
    order = np.argsort(longest, kind="stable")
    start = 0
    while start < len(pairs):
        area = longest[order[start:]] * np.arange(1, len(pairs) - start + 1)
        stop = start + max(1, int(np.searchsorted(area, AREA, "right")))
        yield np.sort(order[start:stop])
        start = stop


def _check(side, rows, lengths, ids):
    """Raises ValueError unless each row is of ids below so many, none 0, closed by the end of sequence."""
    closed = np.take_along_axis(rows, np.maximum(lengths, 1)[:, None] - 1, axis=1)[:, 0] == END
    inside = np.count_nonzero(rows, axis=1) == lengths
    wrong = np.flatnonzero(~closed | ~inside | (rows < 0).any(axis=1) | (rows >= ids).any(axis=1))
    if len(wrong):
        found = rows[wrong[0], : lengths[wrong[0]]].tolist()
        expected = f"ids from 1 to {ids - 1} closed by the end of sequence, {END}"
        raise ValueError(f"found the {side} {found}, expected {expected}")


def _padded(sequences):
    """Id sequences as int32 rows padded with 0, and their lengths."""
    return pad(sequences), np.fromiter(map(len, sequences), np.int64, len(sequences))
