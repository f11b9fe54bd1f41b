"""The decoder over the distinct n-grams of many targets, every context computed once, as one compiled call."""

from typing import Any

import keras
from keras import ops

from keras_encdec.backend.log_sum_exp import log_sum_exp
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.tables import store_rows, take_rows
from keras_encdec.models.language_model import LanguageModel


class NgramDecoder(keras.layers.Layer):
    """Goes through contexts, batch by batch, and then through the n-grams that begin with them.

    It runs on a built language model whose decoder has a `context_length`, and has no weights of its own.

    Args:
        model: LanguageModel.
        careful: bool. See `PrefixTreeDecoder`. Defaults to `False`.

    Call arguments:
        contexts: int32 tensor `(batches, size, context_length)`, the words before, 0 before the beginning.
        context_batches: int32 scalar, how many of these batches are in use.
        context_of_ngram: int32 tensor `(batches, size)`, the slot of each n-gram's context: batch * size + column.
        words: int32 tensor `(batches, size)`, the last word of each n-gram.
        ngram_batches: int32 scalar, how many of these batches are in use.
        table: float tensor `(rows, width)` of `WordProductTables`; the contexts are its rows then, not ids. Defaults
            to `None`.

    Returns:
        tuple of float32 tensors: the logit of each n-gram's last word `(batches * size,)`, and of each context the
        logarithm of the sum of exp of all logits `(batches * size,)`, in nats.
    """

    def __init__(self, model: LanguageModel, careful: bool = False) -> None:
        super().__init__(name="ngram_decoder", dtype=model.dtype_policy)
        self.model = model
        self.careful = careful
        self.built = True

    def call(
        self,
        contexts: Any,
        context_batches: Any,
        context_of_ngram: Any,
        words: Any,
        ngram_batches: Any,
        table: Any = None,
    ) -> tuple[Any, Any]:
        decoder = self.model.decoder
        matrix, bias = map(ops.convert_to_tensor, decoder.output_weights)
        total = log_sum_exp(matrix, bias, self.careful)
        batches, size, _ = contexts.shape

        def compute_features(batch, stored, totals):
            features = self._features(contexts[batch], table)
            return (
                store_rows(stored, batch * size, features),
                store_rows(totals, batch * size, total(ops.cast(features, matrix.dtype))),
            )

        stored, totals = ops.zeros((batches * size, matrix.shape[0])), ops.zeros((batches * size,))
        stored, totals = counted_loop(compute_features, context_batches, stored, totals)
        output, bias = ops.cast(ops.transpose(matrix), "float32"), ops.cast(bias, "float32")
        batches, size = words.shape

        def logits_of(batch, logits):
            features, weights = take_rows(stored, context_of_ngram[batch]), take_rows(output, words[batch])
            return [store_rows(logits, batch * size, ops.sum(features * weights, -1) + ops.take(bias, words[batch]))]

        [logits] = counted_loop(logits_of, ngram_batches, ops.zeros((batches * size,)))
        return logits, totals

    def _features(self, contexts, table):
        """What the output matrix multiplies, of contexts `(size, context_length)`."""
        decoder, length = self.model.decoder, contexts.shape[1]
        if table is not None:
            return decoder.features_of_sums(sum(take_rows(table, contexts[:, i]) for i in range(length)))
        state, memory = self.model.start(contexts)
        for i in range(length):  # more words than these the state does not depend on
            state = decoder.advance(contexts[:, i], state, memory)
        return decoder.features(contexts[:, -1], state, memory)
