"""Log-probabilities of many sequences by a language model of limited context."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Iterator

import keras
import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import LayerFunction, compiled_call, power_of_two
from keras_encdec.backend.log_sums import SafeSums, log_sum_exp, word_logits
from keras_encdec.backend.loops import counted_loop
from keras_encdec.backend.operations import store_rows, take_rows
from keras_encdec.backend.types import Tensor
from keras_encdec.models.contract import Decoder
from keras_encdec.models.language_model import LanguageModel
from keras_encdec.scoring.pair_scorer import NgramCounts


class NgramDecoder(keras.layers.Layer):
    """Computes the features of contexts, batch by batch, and then the logits of the n-grams that begin with them.

    It wraps a built language model whose decoder has a `context_length`, and has no weights of its own.

    Args:
        model: LanguageModel.
        careful: bool. See `PrefixTreeDecoder`. Defaults to `False`.

    Call arguments:
        contexts: int32 tensor `(batches, size, context_length)`, the previous words, 0 before the beginning.
        context_batches: int32 scalar, how many of these batches are in use.
        context_of_ngram: int32 tensor `(batches, size)`, the slot of each n-gram's context: batch * size + column.
        words: int32 tensor `(batches, size)`, the last word of each n-gram.
        ngram_batches: int32 scalar, how many of these batches are in use.
        table: float tensor `(rows, width)` from `WordProductTables`; `contexts` then holds indices of its rows, not
            ids. Defaults to `None`.

    Returns:
        tuple of float32 tensors: the logit of each n-gram's last word `(batches * size,)`, and the log-sum-exp of each
        context's logits `(batches * size,)`, in nats.
    """

    def __init__(self, model: LanguageModel, careful: bool = False) -> None:
        super().__init__(name="ngram_decoder", dtype=model.dtype_policy)
        self.model = model
        self.careful = careful
        self.built = True

    def call(
        self,
        contexts: Tensor,
        context_batches: Tensor,
        context_of_ngram: Tensor,
        words: Tensor,
        ngram_batches: Tensor,
        table: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        decoder = self.model.decoder
        matrix, bias = map(ops.convert_to_tensor, decoder.output_weights)
        total = log_sum_exp(matrix, bias, self.careful)
        batches, size, _ = contexts.shape

        def compute_features(batch: Tensor, stored: Tensor, totals: Tensor) -> tuple[Tensor, Tensor]:
            features = self._features(contexts[batch], table)
            return (
                store_rows(stored, batch * size, features),
                store_rows(totals, batch * size, total(ops.cast(features, matrix.dtype))),
            )

        stored, totals = ops.zeros((batches * size, matrix.shape[0]), "float32"), ops.zeros(batches * size, "float32")
        stored, totals = counted_loop(compute_features, context_batches, stored, totals)
        output, bias = ops.cast(ops.transpose(matrix), "float32"), ops.cast(bias, "float32")
        batches, size = words.shape

        def compute_logits(batch: Tensor, logits: Tensor) -> list[Tensor]:
            features, columns = take_rows(stored, context_of_ngram[batch]), take_rows(output, words[batch])
            new = word_logits(features, columns, ops.take(bias, words[batch]), matrix.dtype)
            return [store_rows(logits, batch * size, new)]

        [logits] = counted_loop(compute_logits, ngram_batches, ops.zeros(batches * size, "float32"))
        return logits, totals

    def _features(self, contexts: Tensor, table: Tensor | None) -> Tensor:
        """Computes the features of contexts `(size, context_length)`, which the output matrix multiplies."""
        decoder, length = self.model.decoder, contexts.shape[1]
        if table is not None:
            return decoder.features_of_sums(sum(take_rows(table, contexts[:, i]) for i in range(length)))
        state, memory = self.model.start(contexts)
        for i in range(length):  # the state depends on these words alone
            state = decoder.advance(contexts[:, i], state, memory)
        return decoder.features(contexts[:, -1], state, memory)


# The largest integer that a row of ids is packed into.
MAX_PACKED = 2**62


class DistinctNgrams:
    """Numbers the n-grams of sequences, each a context of n - 1 ids and the id that follows it.

    A model whose state depends only on the last n - 1 words gives equal n-grams the same log-probability, and n-grams
    with the same context share the sum over the vocabulary.

    Args:
        rows: int array `(sequences, width)`, ids above 0, padded with 0 at the end.
        context_length: int. n - 1. Contexts at the beginning of a sequence have zeros in front.

    Attributes:
        contexts: int array `(contexts, context_length)`, in lexicographic order.
        context_of_ngram: int array `(ngrams,)`, the number of each n-gram's context, in ascending order.
        words: int array `(ngrams,)`, the last id of each n-gram.
        numbers: int array `(sequences, width)`, the number of the n-gram that ends at each id; 0 on padding.

    Example:

    >>> ngrams = DistinctNgrams(np.array([[5, 6, 2], [5, 7, 2], [5, 2, 0]]), context_length=1)
    >>> ngrams.contexts.tolist(), ngrams.words.tolist(), ngrams.numbers.tolist()
    ([[0], [5], [6], [7]], [5, 2, 6, 7, 2, 2], [[0, 2, 4], [0, 3, 5], [0, 1, 0]])
    """

    def __init__(self, rows: np.ndarray, context_length: int) -> None:
        inside = rows != 0
        before = np.pad(rows, [[0, 0], [context_length, 0]])[:, :-1]
        contexts = np.lib.stride_tricks.sliding_window_view(before, context_length, axis=1)[inside]
        first, context = _numbered(contexts)
        self.contexts = contexts[first]
        words = rows[inside]
        first, number = _numbered(np.stack([context, words], axis=1))
        self.context_of_ngram, self.words = context[first], words[first]
        self.numbers = np.zeros(rows.shape, np.int64)
        self.numbers[inside] = number


def _numbered(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first index of each distinct row, in the rows' order, and the number of each row among them."""
    packed, values = np.zeros(len(rows), np.int64), 1
    for column in rows.T:
        base = int(column.max()) + 1
        if values * base > MAX_PACKED:
            # Replaces the packed integers with small numbers, to make room for more columns.
            packed = np.unique(packed, return_inverse=True)[1]
            values = int(packed.max()) + 1
        packed, values = packed * base + column, values * base
    return np.unique(packed, return_index=True, return_inverse=True)[1:]


# Contexts per batch, and the smallest batch, for few contexts.
MAX_BATCH, MIN_BATCH = 1024, 64
# Batches of contexts in a group; it has up to twice as many batches of n-grams.
BATCHES_PER_GROUP = 16


@dataclasses.dataclass
class NgramGroup:
    """The arguments of `NgramDecoder` for a group of n-grams, and the indices of its n-grams in the results.

    Attributes:
        inputs: tuple of int32 arrays, the arguments.
        contexts: int. Number of contexts of the group.
        context_of_ngram: int array `(ngrams,)`, the slot of the context of each n-gram.
    """

    inputs: tuple[np.ndarray | np.int32, ...]
    contexts: int
    context_of_ngram: np.ndarray

    def log_probs(self, logits: np.ndarray, totals: np.ndarray) -> np.ndarray:
        """Computes ln p of each n-gram's last word, float64 `(ngrams,)`, from the results of `NgramDecoder`."""
        log_probs = logits[: len(self.context_of_ngram)].astype(np.float64)
        log_probs -= totals[self.context_of_ngram]
        return log_probs


def cut_ngrams(ngrams: DistinctNgrams) -> Iterator[NgramGroup]:
    """Cuts n-grams into groups, in their order. A context whose n-grams are in two groups is computed in both."""
    size = MAX_BATCH
    while size > MIN_BATCH and len(ngrams.contexts) < size:
        size //= 4
    start = 0
    while start < len(ngrams.words):
        first = ngrams.context_of_ngram[start]
        stop = np.searchsorted(ngrams.context_of_ngram, first + BATCHES_PER_GROUP * size)
        stop = min(int(stop), start + 2 * BATCHES_PER_GROUP * size)
        context_of_ngram = ngrams.context_of_ngram[start:stop] - first
        contexts = ngrams.contexts[first : first + context_of_ngram[-1] + 1]
        inputs = (
            _filled(contexts, BATCHES_PER_GROUP, size),
            np.int32(-(-len(contexts) // size)),
            _filled(context_of_ngram, 2 * BATCHES_PER_GROUP, size),
            _filled(ngrams.words[start:stop], 2 * BATCHES_PER_GROUP, size),
            np.int32(-(-(stop - start) // size)),
        )
        yield NgramGroup(inputs, len(contexts), context_of_ngram)
        start = stop


def _filled(rows: np.ndarray, batches: int, size: int) -> np.ndarray:
    array = np.zeros((batches * size, *rows.shape[1:]), np.int32)
    array[: len(rows)] = rows
    return array.reshape(batches, size, *rows.shape[1:])


# Minimum number of rows of a table for each position. The number of rows is a power of two or the size of the
# vocabulary, because the function is compiled again for every new number.
MIN_TABLE_ROWS = 256
# The largest table, in bytes: enough for the paper's CSLM with 15,000 words.
MAX_TABLE_BYTES = 640 << 20


class WordProductTables:
    """Makes tables of the products of word embeddings and the first layer's matrix, if this saves computation.

    A table of k words costs as much as the first layer of k contexts. With it, the first layer of a context is the sum
    of n - 1 rows. `benchmarks/ngrams.py` measures the gain (sentences, nbest).

    Args:
        model: LanguageModel whose decoder has a `context_length`.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._decoder = model.decoder
        products = functools.partial(_word_products, model.decoder)
        self._products = compiled_call(LayerFunction(products, model.decoder))

    def contexts_and_table(self, contexts: np.ndarray) -> tuple[np.ndarray, Tensor | None]:
        """Makes the table for contexts, and finds the rows of their words in it.

        Args:
            contexts: int array `(contexts, context_length)`, ids.

        Returns:
            tuple: int32 array `(contexts, context_length)`, rows of the table, and the table, float tensor `(rows,
            context_sum_width)`. If a table would not save time or would be too large: `contexts`, unchanged, and
            `None`.
        """
        width = self._decoder.context_sum_width
        if width is None:
            return contexts, None
        is_used = np.zeros(self._decoder.vocabulary_size, bool)
        is_used[contexts] = True
        words, positions = np.flatnonzero(is_used), contexts.shape[1]
        room = max(MIN_TABLE_ROWS, min(power_of_two(len(words)), len(is_used)))
        bytes_each = 8 if self._decoder.compute_dtype == "float64" else 4
        if 2 * room > len(contexts) or positions * room * width * bytes_each > MAX_TABLE_BYTES:
            return contexts, None
        number = np.cumsum(is_used, dtype=np.int32) - 1
        rows = number[contexts] + room * np.arange(positions, dtype=np.int32)
        return rows, self._products(np.pad(words.astype(np.int32), (0, room - len(words))))


def _word_products(decoder: Decoder, words: Tensor) -> Tensor:
    """Computes a decoder's `word_products`, one position after the other."""
    products = decoder.word_products(words)
    return ops.reshape(products, (-1, products.shape[-1]))


class NgramScorer:
    """Scores sequences as the model's `score` does, but computes every distinct n-gram once, in large batches.

    Args:
        model: LanguageModel whose decoder has a `context_length`.
        context_length: int. The decoder's `context_length`.
        run: callable that applies a function to items, and yields the results in their order. Defaults to `map`.

    Attributes:
        counts: NgramCounts of all sequences so far.
    """

    def __init__(
        self,
        model: LanguageModel,
        context_length: int,
        run: Callable[[Callable[[NgramGroup], np.ndarray], Iterable[NgramGroup]], Iterator[np.ndarray]] = map,
    ) -> None:
        self._context_length = context_length
        # One for each value of `careful`, see NgramDecoder.
        self._decoders = {careful: compiled_call(NgramDecoder(model, careful)) for careful in (False, True)}
        self._tables = WordProductTables(model)
        self._safe_sums, self._run = SafeSums(), run
        self.counts, self._lock = NgramCounts(), threading.Lock()

    def token_log_probs(self, rows: np.ndarray) -> np.ndarray:
        """Computes ln p of each token.

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

    def _log_probs(self, table: Tensor | None, group: NgramGroup) -> np.ndarray:
        inputs = group.inputs if table is None else (*group.inputs, table)

        def decode(careful: bool) -> list[np.ndarray]:
            return list(map(ops.convert_to_numpy, self._decoders[careful](*inputs)))

        return group.log_probs(*self._safe_sums(decode, lambda arrays: arrays[1][: group.contexts]))
