"""The products of words with the first layer of a feed-forward language model, each computed once."""

from typing import Any

import keras
import numpy as np

from keras_encdec.backend.compiled_call import compiled_call
from keras_encdec.models.decoder import Decoder
from keras_encdec.models.language_model import LanguageModel

# A table has at least this many rows for each position: a power of two or the whole vocabulary, as each number of rows
# is compiled.
FEWEST = 256
# A table takes at most this much memory, in bytes: enough for the paper's CSLM with 15,000 words.
BYTES = 640 << 20


class WordProductTables:
    """Makes tables of what words add to the first layer, where such a table saves computation.

    A table costs as much as the first layer of as many contexts as it has words; with it, the first layer of a context
    is a sum of n - 1 of its rows. `benchmarks/ngrams.py` shows what it is worth (sentences, nbest).

    Args:
        model: LanguageModel whose decoder has a `context_length`.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._decoder = model.decoder
        self._products = compiled_call(_WordProducts(model.decoder, name="word_products", dtype=model.dtype_policy))

    def contexts_and_table(self, contexts: np.ndarray) -> tuple[np.ndarray, Any]:
        """The table for a number of contexts, and where in it their words are.

        Args:
            contexts: int array `(contexts, context_length)`, ids.

        Returns:
            tuple: int32 array `(contexts, context_length)`, rows of the table, and the table, float tensor `(rows,
            context_sum_width)`. The contexts as they are, and `None`, where a table is not worth computing, or would be
            too large.
        """
        width = self._decoder.context_sum_width
        if width is None:
            return contexts, None
        is_used = np.zeros(self._decoder.vocabulary_size, bool)
        is_used[contexts] = True
        words, positions = np.flatnonzero(is_used), contexts.shape[1]
        room = max(FEWEST, min(1 << (len(words) - 1).bit_length(), len(is_used)))
        bytes_each = 8 if self._decoder.compute_dtype == "float64" else 4
        if 2 * room > len(contexts) or positions * room * width * bytes_each > BYTES:
            return contexts, None
        number = np.cumsum(is_used, dtype=np.int32) - 1
        rows = number[contexts] + room * np.arange(positions, dtype=np.int32)
        return rows, self._products(np.pad(words.astype(np.int32), (0, room - len(words))))


class _WordProducts(keras.layers.Layer):
    """The `word_products` of a decoder, those of all positions below each other; it has no weights of its own."""

    def __init__(self, decoder: Decoder, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decoder = decoder
        self.built = True

    def call(self, words: Any) -> Any:
        products = self.decoder.word_products(words)
        return keras.ops.reshape(products, (-1, products.shape[-1]))
