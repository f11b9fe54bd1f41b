"""Log-probabilities of many pairs, for any translation model."""

import keras
import numpy as np
from keras import ops

from keras_encdec.data import pad
from keras_encdec.scoring.compiled import compiled_call
from keras_encdec.scoring.scorer import in_dtype

# Tokens on either side of a batch, padding counted: so many logits are in memory at a time.
TOKENS = 2048


class BatchScorer:
    """Scores pairs as a `TranslationModel` does, in batches of like length; the interface is `Scorer`'s.

    Equal pairs are scored once.

    Args:
        model: TranslationModel.
        dtype: str. What to compute in, "float32" or "bfloat16". Defaults to `None`: the model's own.
    """

    def __init__(self, model, dtype=None):
        self.model = model
        self._call = compiled_call(_TokenLogProbs(in_dtype(model, dtype or model.compute_dtype)))
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
        distinct = list(distinct)
        tokens = [None] * len(distinct)
        widths = np.array([_width(max(map(len, pair))) for pair in distinct])
        for width in np.unique(widths):
            rows = max(1, TOKENS // width)
            chosen = np.flatnonzero(widths == width)
            for start in range(0, len(chosen), rows):
                if self._closed:
                    raise RuntimeError("found a scorer that was closed, expected an open one")
                some = chosen[start : start + rows]
                # Always as many rows: each number of them is compiled anew.
                batch = [distinct[place] for place in some] + [distinct[some[0]]] * (rows - len(some))
                source, target = (pad(side, width) for side in zip(*batch, strict=True))
                found = ops.convert_to_numpy(self._call(source, target)).astype(np.float64)
                for place, row in zip(some, found, strict=False):
                    tokens[place] = row[: len(distinct[place][1])]
        return [tokens[place] for place in places]


class _TokenLogProbs(keras.layers.Layer):
    def __init__(self, model):
        super().__init__(name="token_log_probs", dtype=model.dtype_policy)
        self.model = model
        self.built = True

    def call(self, source, target):
        return self.model({"source": source, "target": target})


def _width(length):
    """One of few widths."""
    width = 8
    while width < length:
        width *= 2
    return width
