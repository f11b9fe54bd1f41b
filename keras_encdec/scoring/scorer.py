"""Log-probabilities of many pairs."""

import itertools

import keras
import numpy as np
from keras import ops

from keras_encdec.models import Decoder
from keras_encdec.models.log_probs import token_log_probs
from keras_encdec.scoring.compiled import compiled_call

# Lengths above the first are rounded up to one of few, so that long sentences do not compile a
# function for every length.
EXACT_LENGTH = 12
ROUNDED_LENGTH = 8


class Scorer:
    """Scores pairs as `RNNEncoderDecoder.score` does, many at a time.

    Of the pairs it is given together, equal ones are scored once and each distinct source is encoded
    once; then pairs of the same length share a batch, so that phrases need no padding. A score does not
    depend on what it is scored with.

    Args:
        model: RNNEncoderDecoder.
        batch_size: int. Sequences in a batch. Defaults to `512`.
        tokens_per_batch: int. Batches of long sequences are smaller, so that the logits of a batch are
            those of at most so many tokens. Defaults to `4096`.
    """

    def __init__(self, model, batch_size=512, tokens_per_batch=4096):
        self.model = model
        self._batch_size, self._tokens = batch_size, tokens_per_batch
        self._encode = compiled_call(model.encoder)
        decode = _TokenLogProbs(model.decoder, dtype=model.dtype_policy)
        decode.built = True
        self._decode = compiled_call(decode)

    def score(self, pairs):
        """log p(y | x) of each pair, end of sequence included, no length normalization.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.

        Returns:
            float64 array `(n,)`, nats.
        """
        return np.array([tokens.sum() for tokens in self.token_scores(pairs)], np.float64)

    def token_scores(self, pairs):
        """log p(y_t | y_<t, x) of each target token of each pair, the end of sequence last.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.

        Returns:
            list of n float64 arrays, each as long as its target, nats.
        """
        pairs = [(tuple(source), tuple(target)) for source, target in pairs]
        unique = list(dict.fromkeys(pairs))
        sources = {source: place for place, source in enumerate(dict.fromkeys(source for source, _ in unique))}
        summaries = self._summaries(list(sources))
        found = {}
        for batch, width in self._batches(unique, key=lambda pair: len(pair[1])):
            targets = self._padded([target for _, target in batch], width)
            context = np.zeros((len(targets), summaries.shape[1]), summaries.dtype)
            context[: len(batch)] = summaries[[sources[source] for source, _ in batch]]
            rows = ops.convert_to_numpy(self._decode(targets, context)).astype(np.float64)
            found.update((pair, row[: len(pair[1])]) for pair, row in zip(batch, rows, strict=False))
        return [found[pair] for pair in pairs]

    def _summaries(self, sources):
        """c of each source, float array `(n, units)`."""
        summaries = np.zeros((len(sources), self.model.units), np.float32)
        places = {source: place for place, source in enumerate(sources)}
        for batch, width in self._batches(sources, key=len):
            encoded = self._encode(self._padded(batch, width))
            rows = ops.convert_to_numpy(ops.cast(encoded, "float32"))[: len(batch)]
            summaries[[places[source] for source in batch]] = rows
        return summaries

    def _batches(self, items, key):
        """The items in batches of one rounded length, shortest first, with that length."""
        for width, same in itertools.groupby(sorted(items, key=key), lambda item: _rounded(key(item))):
            size, group = self._size(width), list(same)
            for start in range(0, len(group), size):
                yield group[start : start + size], width

    def _size(self, width):
        return max(1, min(self._batch_size, self._tokens // width))

    def _padded(self, sequences, width):
        """Ids as an array of a fixed number of rows for its width, so that each width compiles once."""
        rows = np.zeros((self._size(width), width), np.int32)
        for row, sequence in zip(rows, sequences, strict=False):
            row[: len(sequence)] = sequence
        return rows


def _rounded(length):
    return length if length <= EXACT_LENGTH else -(-length // ROUNDED_LENGTH) * ROUNDED_LENGTH


class _TokenLogProbs(keras.layers.Layer):
    """The decoder and the definition of the score in one call, to be compiled together."""

    def __init__(self, decoder, **kwargs):
        super().__init__(name="token_log_probs", **kwargs)
        self.decoder = decoder

    def call(self, target, context):
        return token_log_probs(self.decoder(Decoder.previous_words(target), context), target)
