"""A model that reads its probabilities from a table, and keeps the decoder contract without any layer of ours."""

import keras
import numpy as np
from keras import ops

from keras_encdec.text import END


class TableEncoder:
    """An encoder that computes nothing from words: `TableModel` encodes sources itself."""

    reader = None
    word_table_size = 0


class TableDecoder:
    """Predicts by the source's first id and the last two words, from a table of random logits.

    The state is the last two words, int32 `(rows, 2)`, the memory the source's first id.
    """

    has_attention = False
    speller = None
    word_table_size = 0

    def __init__(self, vocabulary_size, seed=0, scale=2.0):
        self.vocabulary_size = vocabulary_size
        random = np.random.default_rng(seed)
        table = random.normal(0, scale, (9, vocabulary_size, vocabulary_size, vocabulary_size)).astype("float32")
        self.table = ops.convert_to_tensor(table.reshape(-1, vocabulary_size))

    def start(self, encoded):
        first = encoded["first"]
        return {"window": ops.zeros_like(ops.stack([first, first], axis=1))}, {"first": first}

    def next_log_probs(self, previous, state, memory, source_of_row=None, candidates=None):
        assert candidates is None, "the table has no output matrix to take rows of"
        first = memory["first"]
        rows = ops.repeat(first, ops.shape(previous)[0] // ops.shape(first)[0], axis=0)
        window = ops.stack([state["window"][:, 1], ops.cast(previous, "int32")], axis=1)
        index = (rows * self.vocabulary_size + window[:, 0]) * self.vocabulary_size + window[:, 1]
        return ops.log_softmax(ops.take(self.table, index, axis=0)), {"window": window}


class TableModel:
    """The model of a `TableDecoder`, of 6 source words."""

    has_source = updates_all_weights = True
    dtype_policy, compute_dtype = keras.DTypePolicy("float32"), "float32"
    source_words = 6

    def __init__(self, target_words=9, seed=0, scale=2.0):
        self.target_words, self.encoder = target_words, TableEncoder()
        self.decoder = TableDecoder(target_words + 3, seed, scale)

    def encode(self, source):
        return {"first": ops.convert_to_tensor(source, "int32")[:, 0]}

    def start(self, source, characters=()):
        return self.decoder.start(self.encode(source))

    def log_prob(self, source, target):
        """ln p of a target, from the table itself, in double precision."""
        table = ops.convert_to_numpy(self.decoder.table).astype(float)
        table = table.reshape(9, *[self.decoder.vocabulary_size] * 3)
        previous, total = [0, 0, *target], 0.0
        for t, word in enumerate(target):
            logits = table[source[0], previous[t], previous[t + 1]]
            total += logits[word] - np.log(np.exp(logits).sum())
        return total


def random_sources(number, longest=12, seed=0):
    """Sources of the model, empty ones among them."""
    random = np.random.default_rng(seed)
    return [[*random.integers(3, 9, random.integers(0, longest)).tolist(), END] for _ in range(number)]
