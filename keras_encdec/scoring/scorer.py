"""Log-probabilities of many pairs of ids, and of the rare words of their targets by their characters."""

import concurrent.futures
import functools
import itertools
import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_encdec.backend.compiled_call import call_threads, compiled_call, power_of_two
from keras_encdec.backend.log_sums import SafeSums
from keras_encdec.backend.types import Tensor
from keras_encdec.data import pad
from keras_encdec.data.rare_word_batches import by_length
from keras_encdec.models.contract import TensorSpec
from keras_encdec.models.log_probs import SPECIAL_IDS, check_sequences
from keras_encdec.models.translation_model import ModelInDtype, TranslationModel
from keras_encdec.models.word_tables import WordTableCache, WordTables
from keras_encdec.runtime.workers import Item, Result, in_order
from keras_encdec.scoring.candidate_sums import CandidateSums
from keras_encdec.scoring.ngram_scorer import NgramScorer
from keras_encdec.scoring.pair_groups import PairGroup, cut_into_groups
from keras_encdec.scoring.pair_scorer import NgramCounts
from keras_encdec.scoring.prefix_tree_decoder import PrefixTreeDecoder
from keras_encdec.scoring.scoring_options import DTYPES
from keras_encdec.scoring.source_encoder import BatchEncoder, PrefixTreeEncoder, padded_width
from keras_encdec.text.lexical_shortlist import candidate_lists
from keras_encdec.text.vocabulary import END, UNKNOWN

# A group of pairs has at most `SLOTS` states. The states take at most `BYTES` bytes, and so does the sources' memory.
SLOTS, BYTES = 1 << 15, 1 << 28
# Maximum number of ids in a padded array.
AREA = 1 << 22

Pair = tuple[Sequence[int], Sequence[int]]
# The ids that may follow in the target of each pair; `None`: all.
Candidates = Sequence[np.ndarray] | None
# Maximum number of words that are spelled in one call.
SPELLED_TOGETHER = 1024
# Calls for fewer words are padded to this number, so that few shapes are compiled.
MIN_SPELLED = 16


class PairSpellings(NamedTuple):
    """The spellings of the words of pairs that are outside the shortlists, see `OpenVocabulary`.

    The ids of these words continue those of the shortlist: the word with the first id after it is spelled in row 0.

    Attributes:
        source, target: int32 arrays `(words, 51)`; `None` for a side without characters.
    """

    source: np.ndarray | None = None
    target: np.ndarray | None = None


class Scorer:
    """Scores pairs as the model's `score` does, but computes every state of the decoder once.

    Among pairs that are scored together, the targets of a source share the decoder's states of their common prefixes,
    and what depends on the source alone is computed once for each source. In the same way, sources share the states of
    an incremental encoder, such as that of `RNNEncoderDecoder`. Padding of targets is not computed. The score of a pair
    does not depend on the other pairs. A model without a source scores the targets alone. A model of limited context,
    such as `FeedForwardLanguageModel`, computes each distinct n-gram once.

    Args:
        model: TranslationModel, such as RNNEncoderDecoder.
        dtype: str. Dtype of the computation, "float32", "bfloat16" or "int8"; log-probabilities are summed in float32
            or more. Defaults to `None`: the model's own compute dtype.

    Attributes:
        has_attention: bool. Whether the model has attention.

    Raises:
        ValueError: for an unknown dtype, or an object that is not a model, such as a model directory.
    """

    def __init__(self, model: TranslationModel, dtype: str | None = None) -> None:
        if dtype is not None and dtype not in DTYPES:
            raise ValueError(f"found dtype={dtype!r}, expected {' or '.join(map(repr, DTYPES))}")
        self._computed, self._dtype = ModelInDtype(model, dtype), dtype
        self.model = computed = self._computed.model
        self._word_tables = WordTableCache([computed])
        decoder = computed.decoder
        self._state_spec, self._memory_spec = decoder.state_spec, decoder.memory_spec
        self._encoder: PrefixTreeEncoder | BatchEncoder = (
            PrefixTreeEncoder(computed, self._room(1)[0]) if computed.encoder.is_incremental else BatchEncoder(computed)
        )
        # One for each combination of `careful` and `with_attention`, see PrefixTreeDecoder.
        self._decoders = {
            (careful, attention): compiled_call(PrefixTreeDecoder(decoder, careful, attention))
            for careful in (False, True)
            for attention in (False, True)
        }
        self._feature_decoders = {
            attention: compiled_call(PrefixTreeDecoder(decoder, with_attention=attention, with_logits=False))
            for attention in (False, True)
        }
        self._candidate_sums = CandidateSums(decoder)
        self.has_attention = decoder.has_attention
        self._speller = None if decoder.speller is None else compiled_call(decoder.speller)
        self._safe_sums = SafeSums()
        self._workers, begin = call_threads()
        self._executor = concurrent.futures.ThreadPoolExecutor(self._workers, initializer=begin)
        self._ngrams = None
        if decoder.context_length is not None and not model.has_source:
            self._ngrams = NgramScorer(computed, decoder.context_length, self._in_order)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """Pickles the arguments: the process that reads them compiles its own functions."""
        self._computed.update()
        return type(self), (self.model, self._dtype)

    def close(self) -> None:
        """Cancels pending computations: calls in other threads fail, and so do later ones."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    @property
    def ngram_counts(self) -> NgramCounts | None:
        """The numbers of n-grams scored so far and of distinct ones; `None` for a model without limited context."""
        return self._ngrams.counts if self._ngrams else None

    def score(
        self,
        pairs: Sequence[Pair],
        spellings: PairSpellings | None = None,
        candidates: Candidates = None,
    ) -> np.ndarray:
        """Computes log p(y | x) of each pair, including the end of sequence, without length normalization.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.
            spellings: PairSpellings, for a model with characters. Defaults to `None`: there are no rare words.
            candidates: list of int arrays, the ids among which the probabilities of the words of each pair are shared,
                in addition to the special ids and the word itself, see `LexicalShortlist`. A score is then an upper
                bound of that with all words. Pairs share states only if their candidates are equal, too. Defaults to
                `None`: all ids.

        Returns:
            float64 array `(n,)`, nats.

        Raises:
            ValueError: for an item that is not a pair of sequences, for a sequence that is not closed by the end of
                sequence or has ids outside the model's vocabulary, for `spellings` that are not PairSpellings, such
                as the targets in a second array, for candidates that are not ids of the model, and for candidates of a
                model without a source.
        """
        scores = np.empty(len(pairs))
        for indices, log_probs, _ in self._log_probs(pairs, spellings, candidates):
            scores[indices] = log_probs.sum(axis=1)
        return scores

    def token_scores(
        self,
        pairs: Sequence[Pair],
        spellings: PairSpellings | None = None,
        candidates: Candidates = None,
    ) -> list[np.ndarray]:
        """Computes log p(y_t | y_<t, x) of each target token of each pair, the end of sequence last.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.
            spellings, candidates: see `score`.

        Returns:
            list of n float64 arrays, each as long as its target, nats.

        Raises:
            ValueError: see `score`.
        """
        tokens = [np.empty(0)] * len(pairs)
        for indices, log_probs, lengths in self._log_probs(pairs, spellings, candidates):
            for index, row, length in zip(indices, log_probs, lengths, strict=True):
                tokens[index] = row[:length]
        return tokens

    def token_scores_with_attention(
        self, pairs: Sequence[Pair], spellings: PairSpellings | None = None, candidates: Candidates = None
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Computes the token scores, and the attention weights by which each target token was predicted.

        Args:
            pairs: list of `(source ids, target ids)`, sequences of int closed by the end of sequence.
            spellings, candidates: see `score`.

        Returns:
            tuple: the results of `token_scores`, and a list of n float32 arrays `(target tokens, source tokens)`, the
            ends of sequence included.

        Raises:
            ValueError: see `score`; also if the model has no attention.
        """
        if not self.has_attention:
            raise ValueError("found a model without attention, expected a model with attention")
        tokens, attention = [np.empty(0)] * len(pairs), [np.empty((0, 0))] * len(pairs)
        for indices, group, (results, weights) in self._scored(pairs, spellings, candidates, with_attention=True):
            rows = zip(indices, group.log_probs(results), group.paths, group.lengths, strict=True)
            for index, row, path, length in rows:
                tokens[index] = row[:length]
                attention[index] = weights[path[:length], : len(pairs[index][0])]
        return tokens, attention

    def _log_probs(
        self, pairs: Sequence[Pair], spellings: PairSpellings | None, candidates: Candidates
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yields indices of pairs, their token log-probabilities (0 after the end) and the lengths of their targets."""
        if not self._ngrams:
            for indices, group, [results] in self._scored(pairs, spellings, candidates):
                yield indices, group.log_probs(results), group.lengths
            return
        self._check(pairs, candidates)
        self._computed.update()
        targets = [target for _, target in pairs]
        for indices in _cut([(target,) for target in targets]):
            rows, lengths = _padded([targets[index] for index in indices])
            check_sequences("target", rows, lengths, self.model.target_words + SPECIAL_IDS)
            yield indices, self._ngrams.token_log_probs(rows), lengths

    def _in_order(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        return in_order(self._executor, function, items, self._workers)

    def _scored(
        self,
        pairs: Sequence[Pair],
        spellings: PairSpellings | None,
        candidates: Candidates,
        with_attention: bool = False,
    ) -> Iterator[tuple[np.ndarray, PairGroup, list[np.ndarray]]]:
        """Yields indices of pairs, their group, and what `PrefixTreeDecoder` returns for it: one array or two."""
        if not isinstance(spellings, PairSpellings | None):
            found = f"found the spellings {reprlib.repr(spellings)}, expected PairSpellings"
            raise ValueError(f"{found}; the pairs are a single list of (source ids, target ids)")
        self._check(pairs, candidates)
        self._computed.update()
        spellings = spellings or PairSpellings()
        tables = self._word_tables.tables(itertools.chain.from_iterable(pairs))
        decode = functools.partial(self._decoded, with_attention, spellings, tables)
        yield from self._in_order(decode, self._groups(pairs, spellings, candidates))

    def _check(self, pairs: Sequence[Pair], candidates: Candidates) -> None:
        """Raises ValueError for candidates without a source, and unless each item is two sequences.

        A third sequence would be ignored.
        """
        for pair in pairs:
            if not hasattr(pair, "__len__") or len(pair) != 2 or not all(map(_is_sequence_of_ids, pair)):
                found = f"found {reprlib.repr(pair)} in place of a pair"
                raise ValueError(f"{found}, expected (source ids, target ids); TextScorer scores words")
        if candidates is not None and not self.model.has_source:
            raise ValueError("found candidates with a language model, which has no source, expected none")

    def _groups(
        self, pairs: Sequence[Pair], spellings: PairSpellings, candidates: Candidates
    ) -> Iterator[tuple[np.ndarray, PairGroup, np.ndarray]]:
        """Yields indices of pairs, the group of these pairs, and their targets with the ids of rare words."""
        rare_words = [0 if table is None else len(table) for table in spellings]
        target_ids = self.model.target_words + SPECIAL_IDS
        lists = None if candidates is None else candidate_lists(candidates, len(pairs), target_ids, "pair")
        if not self.model.has_source:
            pairs = [((END,), target) for _, target in pairs]
        for indices in _cut(pairs):
            numbers, source_of_pair = {}, np.empty(len(indices), np.int64)
            for i, index in enumerate(indices):
                # Sources that read alike may have different candidates, as those of unknown words.
                key = tuple(pairs[index][0]), lists[index].tobytes() if lists else b""
                source_of_pair[i] = numbers.setdefault(key, len(numbers))
            sources = _padded([source for source, _ in numbers])
            targets = _padded([pairs[index][1] for index in indices])
            check_sequences("source", *sources, self.model.source_words + SPECIAL_IDS + rare_words[0])
            check_sequences("target", *targets, target_ids + rare_words[1])
            # The decoder predicts and reads the unknown word for any rare word, so targets that differ only in their
            # rare words share prefixes.
            rows, lengths = targets
            known = np.where(rows >= target_ids, UNKNOWN, rows)
            for group in cut_into_groups(*sources, source_of_pair, known, lengths, self._room):
                if lists:
                    pairs_of_group = [lists[index] for index in indices[group.pairs]]
                    group.limit_to(pairs_of_group, known[group.pairs])
                yield indices[group.pairs], group, rows[group.pairs]

    def _room(self, longest: int) -> tuple[int, int]:
        """Returns the maximum numbers of states and of sources of a group whose longest source has this length.

        Both are powers of two, because the call is compiled again for every new number.
        """
        width, slots = padded_width(longest), SLOTS
        while slots > 2 and 4 * slots * _elements(self._state_spec, width) > BYTES:
            slots //= 2
        most = max(2, slots // 8)
        while most > 2 and 4 * most * _elements(self._memory_spec, width) > BYTES:
            most //= 2
        return slots, most

    def _decoded(
        self,
        with_attention: bool,
        spellings: PairSpellings,
        tables: WordTables,
        item: tuple[np.ndarray, PairGroup, np.ndarray],
    ) -> tuple[np.ndarray, PairGroup, list[np.ndarray]]:
        indices, group, targets = item
        state, memory = self._encoder.start(group.sources, group.source_lengths, group.rows, spellings.source, tables)
        rare = None
        if self._speller is not None and spellings.target is not None:
            first_rare = self.model.target_words + SPECIAL_IDS
            rare = RareTargets(targets, group.paths, first_rare, self._speller, spellings.target)
        inputs = [*group.inputs, state, memory, tables, *([rare.slots] if rare else [])]

        def decode(careful: bool) -> list[np.ndarray]:
            outputs = self._decoders[careful, with_attention](*inputs)
            return [ops.convert_to_numpy(output) for output in (outputs if with_attention or rare else [outputs])]

        if group.candidates:
            outputs = self._feature_decoders[with_attention](*inputs)
            features, *others = outputs if with_attention or rare else [outputs]
            arrays = [self._candidate_sums(features, group), *map(ops.convert_to_numpy, others)]
        else:
            arrays = self._safe_sums(decode, lambda arrays: arrays[0][2, group.paths])
        if rare:
            *arrays, first = arrays
            group.spelling = rare.log_probs(first)
        return indices, group, arrays


def _is_sequence_of_ids(side: object) -> bool:
    return hasattr(side, "__len__") and not isinstance(side, str)


def _elements(specs: dict[str, TensorSpec], steps: int = 1) -> int:
    """Returns the number of elements in a row of tensors."""
    return sum(math.prod(spec.with_time(steps)) for spec in specs.values())


def _cut(pairs: Sequence[tuple[Sequence[int], ...]]) -> Iterator[np.ndarray]:
    """Yields the indices of the pairs, in parts whose padded arrays are not too large."""
    longest = np.fromiter((max(map(len, pair)) for pair in pairs), np.int64, len(pairs))
    order = np.argsort(longest, kind="stable")
    start = 0
    while start < len(pairs):
        area = longest[order[start:]] * np.arange(1, len(pairs) - start + 1)
        stop = start + max(1, int(np.searchsorted(area, AREA, "right")))
        yield np.sort(order[start:stop])
        start = stop


def _padded(sequences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns id sequences as int32 rows padded with 0, and their lengths."""
    return pad(sequences), np.fromiter(map(len, sequences), np.int64, len(sequences))


class RareTargets:
    """The rare words in the targets of a group of pairs.

    A word that is spelled after the same prefix in several pairs is spelled once.

    Args:
        targets: int array `(n, width)`, padded with 0.
        paths: int array `(n, width)`, the slot of the prefix before each word, see `PairGroup`.
        first: int. The lowest id of a rare word.
        speller: compiled call of a `Speller`.
        spellings: integer array `(words, 51)`.

    Attributes:
        slots: int32 array, the distinct slots of prefixes before a rare word, padded with 0 to a power of 2.
    """

    def __init__(
        self, targets: np.ndarray, paths: np.ndarray, first: int, speller: Callable[..., Tensor], spellings: np.ndarray
    ) -> None:
        self._shape, self._speller, self._spellings = paths.shape, speller, spellings
        rows, columns = np.nonzero(targets >= first)
        self._where = rows, columns
        pairs = np.stack([paths[rows, columns], targets[rows, columns] - first])
        (slots, self._words), self._index = np.unique(pairs, axis=1, return_inverse=True)
        distinct, self._row = np.unique(slots, return_inverse=True)
        self.slots = np.zeros(power_of_two(len(distinct), MIN_SPELLED), np.int32)
        self.slots[: len(distinct)] = distinct

    def log_probs(self, first: np.ndarray) -> np.ndarray:
        """Computes ln p of the characters of each rare word.

        Args:
            first: float array `(slots, units)`, the speller's first state for each of `slots`.

        Returns:
            float64 array like the targets, nats; 0 for all other words.
        """
        scores = np.zeros(len(self._words))
        for start in range(0, len(self._words), SPELLED_TOGETHER):
            part = slice(start, start + SPELLED_TOGETHER)
            for group in by_length(self._spellings[self._words[part]]):
                if not len(group.indices):
                    continue
                words = start + group.indices
                states = np.zeros((len(group.characters), first.shape[1]), first.dtype)
                states[: len(words)] = first[self._row[words]]
                scores[words] = ops.convert_to_numpy(self._speller(states, group.characters))[: len(words)]
        spelling = np.zeros(self._shape)
        spelling[self._where] = scores[self._index.ravel()]
        return spelling
