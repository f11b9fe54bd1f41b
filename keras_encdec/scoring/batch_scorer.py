"""Log-probabilities of many pairs, for the recurrent translation models."""

import keras
import numpy as np
from keras import ops

from keras_encdec.data import pad
from keras_encdec.models.decoder import Decoder
from keras_encdec.models.log_probs import token_log_probs
from keras_encdec.scoring.compiled import compiled_call
from keras_encdec.scoring.scorer import in_dtype

# Tokens of a batch, padding counted: so many logits are in memory at a time.
TOKENS = 2048
# Sources whose encodings are in memory at a time.
SOURCES = 4096


class BatchScorer:
    """Scores pairs as the recurrent translation models do, in batches of like length; the interface is `Scorer`'s.

    Equal sources are encoded once, and equal pairs scored once.

    Args:
        model: TranslationModel whose encoder gives a list, as RecurrentEncoderDecoder's.
        dtype: str. What to compute in, "float32" or "bfloat16". Defaults to `None`: the model's own.
    """

    def __init__(self, model, dtype=None):
        self.model = model
        computing = in_dtype(model, dtype or model.compute_dtype)
        self._encode, self._decode = compiled_call(_Encode(computing)), compiled_call(_Decode(computing))
        self._closed = False

    def close(self):
        """Drops what is still to be computed: calls in other threads fail, and further ones."""
        self._closed = True

    def score(self, pairs):
        """See `Scorer.score`."""
        return np.array([tokens.sum() for tokens in self.token_scores(pairs)])

    def token_scores(self, pairs):
        """See `Scorer.token_scores`."""
        distinct = {}
        places = [distinct.setdefault((tuple(source), tuple(target)), len(distinct)) for source, target in pairs]
        targets = {}  # of each source, with their places
        for (source, target), place in distinct.items():
            targets.setdefault(source, []).append((target, place))
        tokens, sources = [None] * len(distinct), list(targets)
        for start in range(0, len(sources), SOURCES):
            some = sources[start : start + SOURCES]
            encoded = self._encoded(some)
            rows = [(row, target, place) for row, source in enumerate(some) for target, place in targets[source]]
            for batch, size, width in _batches(rows, [len(target) for _, target, _ in rows]):
                ids = pad([target for _, target, _ in _filled(batch, size)], width)
                chosen = [row for row, _, _ in _filled(batch, size)]
                found = self._call(self._decode, ids, *(part[chosen] for part in encoded))
                for (_, target, place), row in zip(batch, found.astype(np.float64), strict=False):
                    tokens[place] = row[: len(target)]
        return [tokens[place] for place in places]

    def _encoded(self, sources):
        """What the encoder gives for some sources: list of float32 arrays, a row each."""
        rows = [None] * len(sources)
        for batch, size, width in _batches(range(len(sources)), list(map(len, sources))):
            ids = pad([sources[place] for place in _filled(batch, size)], width)
            parts = self._call(self._encode, ids)
            for row, place in enumerate(batch):
                rows[place] = [part[row] for part in parts]
        return [np.stack(part) for part in zip(*rows, strict=True)]

    def _call(self, compiled, *arrays):
        if self._closed:
            raise RuntimeError("found a scorer that was closed, expected an open one")
        return keras.tree.map_structure(ops.convert_to_numpy, compiled(*arrays))


class _Encode(keras.layers.Layer):
    def __init__(self, model):
        super().__init__(name="encode", dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, source):
        # NumPy has no bfloat16.
        return [ops.cast(part, "float32") for part in keras.tree.flatten(self.model.encode(source))]


class _Decode(keras.layers.Layer):
    def __init__(self, model):
        super().__init__(name="decode", dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, target, *encoded):
        encoded = [ops.cast(part, self.model.compute_dtype) for part in encoded]
        return token_log_probs(self.model.decoder(Decoder.previous_words(target), encoded), target)


def _batches(items, lengths):
    """Yields items of like length, in batches: a list of them, the batch's rows and its width.

    Always as many rows of a width, as each number of them is compiled anew.
    """
    items, widths = list(items), np.array([_width(length) for length in lengths])
    for width in np.unique(widths):
        size, chosen = max(1, TOKENS // width), np.flatnonzero(widths == width)
        for start in range(0, len(chosen), size):
            yield [items[i] for i in chosen[start : start + size]], size, width


def _filled(batch, size):
    """So many items: the batch and copies of its first."""
    return batch + [batch[0]] * (size - len(batch))


def _width(length):
    """One of few widths."""
    width = 8
    while width < length:
        width *= 2
    return width
