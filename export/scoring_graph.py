"""Encodes and scores phrases of mixed lengths in a TensorFlow graph, for any model that meets the decoder contract."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import tensorflow as tf

from keras_encdec.backend.types import Structure
from keras_encdec.models.characters import CharacterReader, Speller
from keras_encdec.models.contract import Decoder, Encoder, TensorSpec
from keras_encdec.models.log_probs import token_log_probs
from keras_encdec.text.vocabulary import UNKNOWN

# A tensor, or tensors in tuples, lists and dicts; and the variables of a loop.
Results = TypeVar("Results")
Variables = TypeVar("Variables", bound=tuple[object, ...])
# Maximum number of phrases that are computed together.
PHRASES_AT_ONCE = 256


def in_parts(part: Callable[[tf.Tensor, Results], Results], lengths: tf.Tensor, results: Results) -> Results:
    """Calls `part(indices, results) -> results` for groups of phrases of similar length, at most 256 each.

    The indices begin with the longest phrase; each call gets the results of the call before it.
    """
    number = tf.size(lengths)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)

    def iteration(start: tf.Tensor, results: Results) -> tuple[tf.Tensor, Results]:
        return start + PHRASES_AT_ONCE, part(order[start : start + PHRASES_AT_ONCE], results)

    return sequential_loop(lambda start, _: start < number, iteration, (0, results))[1]


def rows_by_step(lengths: tf.Tensor) -> tf.Tensor:
    """Counts the phrases that have a token at each step: from descending lengths `(k,)` to int32 `(steps,)`."""
    return tf.reduce_sum(tf.cast(tf.sequence_mask(lengths), tf.int32), axis=0)


def put_rows(table: tf.Tensor, indices: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Writes rows `(k, ...)` into a table `(n, ...)` at the indices; narrower rows are padded with zero."""
    missing = tf.shape(table)[1:] - tf.shape(rows)[1:]
    paddings = tf.pad(tf.stack([tf.zeros_like(missing), missing], axis=1), [[1, 0], [0, 0]])
    rows = rows if table.shape[1:].is_fully_defined() else tf.pad(rows, paddings)
    return tf.tensor_scatter_nd_update(table, indices[:, None], rows)


def sequential_loop(
    condition: Callable[..., tf.Tensor],
    body: Callable[..., Variables],
    values: Variables,
    shapes: Structure | None = None,
) -> Variables:
    """Runs a `tf.while_loop` without parallel iterations; `shapes` are its `shape_invariants`."""
    # Parallel iterations would keep the tensors of several parts in memory.
    after: Variables = tf.while_loop(condition, body, values, shape_invariants=shapes, parallel_iterations=1)
    return after


# Maximum number of target tokens whose logits are in memory at the same time.
TOKENS_AT_ONCE = 512

Tensors = dict[str, tf.Tensor]


def encode_in_graph(
    encoder: Encoder, ids: tf.Tensor, lengths: tf.Tensor, spellings: tf.Tensor | None = None
) -> Tensors:
    """Encodes phrases. The result for a phrase does not depend on the other phrases in the batch.

    Args:
        encoder: Encoder. If it is incremental, it reads word by word, without padding.
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded.
        lengths: int32 tensor `(n,)`, which counts the end of sequence.
        spellings: int32 tensor `(words, 51)`, of a model that reads characters, see `Phrases`. Defaults to `None`.

    Returns:
        dict of tensors `(n, ...)`, `encoded`; the source time axis is padded with zero, or false.
    """
    encode = _encode_incrementally if encoder.is_incremental else _encode_whole
    rare = () if spellings is None or encoder.reader is None else (_read_words(encoder.reader, spellings),)

    def part(indices: tf.Tensor, encoded: Tensors) -> Tensors:
        made = encode(encoder, tf.gather(ids, indices), tf.gather(lengths, indices), *rare)
        return {name: put_rows(table, indices, made[name]) for name, table in encoded.items()}

    empty = {
        name: _zeros(spec, tf.size(lengths), tf.shape(ids)[1], encoder.compute_dtype)
        for name, spec in encoder.encoded_spec.items()
    }
    return in_parts(part, lengths, empty)


def score_in_graph(
    decoder: Decoder,
    ids: tf.Tensor,
    lengths: tf.Tensor,
    encoded: Tensors,
    source_of_phrase: tf.Tensor,
    spellings: tf.Tensor | None = None,
) -> tf.Tensor:
    """Computes ln p of each token of target phrases.

    Args:
        decoder: Decoder.
        ids: int32 tensor `(n, t)`, closed by the end of sequence and padded.
        lengths: int32 tensor `(n,)`, which counts the end of sequence.
        encoded: dict of tensors from `encode_in_graph`, one row per source.
        source_of_phrase: integer tensor `(n,)`: the row of `encoded` that each phrase translates.
        spellings: int32 tensor `(words, 51)`, see `Phrases`, if the model spells words: ln p of a rare word is then
            that of the unknown word plus that of the word's characters. Defaults to `None`.

    Returns:
        float32 tensor `(n, t)`, nats; 0 on padding.
    """
    first_rare = decoder.output_weights[1].shape[0]
    known = ids if spellings is None else tf.where(ids >= first_rare, UNKNOWN, ids)

    def score(tokens: TokenStates, log_probs: tf.Tensor) -> tf.Tensor:
        logits = decoder.logits(decoder.features(tokens.previous, tokens.state, tokens.memory, tokens.source))
        scores = token_log_probs(logits[None], tf.gather_nd(known, tokens.indices)[None])[0]
        log_probs = tf.tensor_scatter_nd_update(log_probs, tokens.indices, scores)
        if spellings is None or decoder.speller is None:
            return log_probs
        word = tf.gather_nd(ids, tokens.indices) - first_rare
        rare = tokens.where(word >= 0)
        characters = tf.gather(spellings, tf.gather(word, tf.where(word >= 0)[:, 0]))
        first = decoder.spelling_state(rare.state, rare.memory, rare.source)
        return tf.tensor_scatter_nd_add(log_probs, rare.indices, spelling_log_probs(decoder.speller, first, characters))

    zeros = tf.zeros(tf.shape(ids), tf.float32)
    return over_tokens(decoder, known, lengths, encoded, source_of_phrase, score, zeros)


class TokenStates(NamedTuple):
    """The decoder's states when it predicts tokens of target phrases.

    Attributes:
        indices: int32 tensor `(k, 2)`: the phrase and the position of each token.
        previous: int32 tensor `(k,)`, the id of the token before each token.
        state: dict of tensors, one row per token.
        memory: dict of tensors, one row per source.
        source: int32 tensor `(k,)`: the source of each token.
    """

    indices: tf.Tensor
    previous: tf.Tensor
    state: Tensors
    memory: Tensors
    source: tf.Tensor

    def where(self, chosen: tf.Tensor) -> "TokenStates":
        """Returns the tokens where a boolean tensor `(k,)` is true."""
        indices, previous, source = (
            tf.boolean_mask(tensor, chosen) for tensor in (self.indices, self.previous, self.source)
        )
        state = {name: tf.boolean_mask(table, chosen) for name, table in self.state.items()}
        return TokenStates(indices, previous, state, self.memory, source)


def over_tokens(
    decoder: Decoder,
    ids: tf.Tensor,
    lengths: tf.Tensor,
    encoded: Tensors,
    source_of_phrase: tf.Tensor,
    function: Callable[[TokenStates, Results], Results],
    results: Results,
) -> Results:
    """Calls `function(tokens, results) -> results` for all tokens of target phrases, at most 512 at a time.

    Args:
        decoder, ids, lengths, encoded, source_of_phrase: see `score_in_graph`.
        function: function that takes TokenStates and the results so far, and returns the new results.
        results: structure of tensors, the results at the beginning.

    Returns:
        structure of tensors, the results after the last call.
    """
    # The first state and the memory depend only on the source: all of its translations share them.
    first_state, memory = decoder.start(encoded)
    source_of_phrase, previous = tf.cast(source_of_phrase, tf.int32), decoder.previous_words(ids)

    def part(indices: tf.Tensor, results: Results) -> Results:
        source, rows = tf.gather(source_of_phrase, indices), rows_by_step(tf.gather(lengths, indices))
        words = tf.gather(previous, indices)
        state = {name: tf.gather(table, source) for name, table in first_state.items()}
        states = _states(decoder, words, state, memory, source, rows)
        # The step and the phrase of each row of the states: all rows of the first step, then those of the next.
        step, row = tf.unstack(tf.cast(tf.where(tf.sequence_mask(rows)), tf.int32), axis=1)
        token_of_row = tf.stack([tf.gather(indices, row), step], axis=1)
        word, source_of_row = tf.gather_nd(previous, token_of_row), tf.gather(source, row)

        def chunk(start: tf.Tensor, results: Results) -> tuple[tf.Tensor, Results]:
            now = slice(start, start + TOKENS_AT_ONCE)
            state = {name: table[now] for name, table in states.items()}
            tokens = TokenStates(token_of_row[now], word[now], state, memory, source_of_row[now])
            return start + TOKENS_AT_ONCE, function(tokens, results)

        return sequential_loop(lambda start, _: start < tf.size(row), chunk, (0, results))[1]

    return in_parts(part, lengths, results)


def spelling_log_probs(speller: Speller, first: tf.Tensor, spellings: tf.Tensor) -> tf.Tensor:
    """Computes ln p of the characters of words: float32 `(words,)`."""
    lengths = tf.math.count_nonzero(spellings, axis=1, dtype=tf.int32)

    def part(indices: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        width = tf.reduce_max(tf.gather(lengths, indices))
        return put_rows(scores, indices, speller(tf.gather(first, indices), tf.gather(spellings, indices)[:, :width]))

    return in_parts(part, lengths, tf.zeros(tf.shape(lengths)))


def _read_words(reader: CharacterReader, spellings: tf.Tensor) -> tf.Tensor:
    """Computes the vectors of words, as `CharacterReader.read` does: `(1 + words, width)`."""
    lengths = tf.math.count_nonzero(spellings, axis=1, dtype=tf.int32)

    def part(indices: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
        width = tf.reduce_max(tf.gather(lengths, indices))
        return put_rows(vectors, indices + 1, reader(tf.gather(spellings, indices)[:, :width]))

    return in_parts(part, lengths, tf.zeros([tf.size(lengths) + 1, reader.width], reader.compute_dtype))


def _encode_incrementally(encoder: Encoder, ids: tf.Tensor, lengths: tf.Tensor) -> Tensors:
    """Encodes phrases, sorted by length, with an incremental encoder."""
    rows = rows_by_step(lengths)
    state = {
        name: _zeros(spec, tf.size(lengths), 0, encoder.compute_dtype) for name, spec in encoder.state_spec.items()
    }

    def step(t: tf.Tensor, state: Tensors) -> tuple[tf.Tensor, Tensors]:
        now = rows[t]
        new = encoder.step(ids[:now, t], {name: table[:now] for name, table in state.items()})
        return t + 1, {name: tf.concat([new[name], table[now:]], 0) for name, table in state.items()}

    return encoder.finish(sequential_loop(lambda t, _: t < tf.size(rows), step, (0, state))[1])


def _encode_whole(encoder: Encoder, ids: tf.Tensor, lengths: tf.Tensor, *rare: tf.Tensor) -> Tensors:
    """Encodes phrases, sorted by length, with any encoder; `rare` are the vectors of rare words."""
    encoded: Tensors = encoder(ids[:, : tf.reduce_max(lengths)], *rare)
    return encoded


def _states(
    decoder: Decoder, words: tf.Tensor, state: Tensors, memory: Tensors, source_of_row: tf.Tensor, rows: tf.Tensor
) -> Tensors:
    """Computes the states after each word of phrases sorted by length: all rows of the first step, then of the next."""
    steps, names = tf.size(rows), list(state)
    tables = [
        tf.TensorArray(state[name].dtype, steps, infer_shape=False, element_shape=(None, *state[name].shape[1:]))
        for name in names
    ]

    def step(
        t: tf.Tensor, state: Tensors, tables: list[tf.TensorArray]
    ) -> tuple[tf.Tensor, Tensors, list[tf.TensorArray]]:
        now = rows[t]
        before = {name: table[:now] for name, table in state.items()}
        new = decoder.advance(words[:now, t], before, memory, source_of_row[:now])
        tables = [table.write(t, new[name]) for name, table in zip(names, tables, strict=True)]
        return t + 1, {name: tf.concat([new[name], table[now:]], 0) for name, table in state.items()}, tables

    tables = sequential_loop(lambda t, *_: t < steps, step, (0, state, tables))[2]
    return {name: table.concat() for name, table in zip(names, tables, strict=True)}


def _zeros(spec: TensorSpec, rows: tf.Tensor, source_time: tf.Tensor, compute_dtype: str) -> tf.Tensor:
    shape = tf.stack([rows, *spec.with_time(source_time)])
    return tf.ensure_shape(tf.zeros(shape, spec.dtype or compute_dtype), (None, *spec.shape))
