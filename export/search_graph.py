"""Runs a sampler's search inside an exported graph."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import tensorflow as tf

from keras_encdec.backend.types import Encoded, Memory, SearchState, State, Structure
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.search_batches import LENGTH_FACTOR, MIN_LIMIT
from keras_encdec.export.scoring_graph import Tensors, sequential_loop
from keras_encdec.text.vocabulary import END, PADDING

# Maximum number of target sequences that are extended together, unless one source needs more.
MAX_ROWS = 256
# Number of candidate words in a search with a lexical shortlist. If the sources that are searched together have more
# candidates, the search is among all words.
CANDIDATES = 1024
# Random numbers are multiples of 1 / DRAWS, which float32 represents exactly.
DRAWS = 1 << 24


def target_limits(lengths: tf.Tensor) -> tf.Tensor:
    """Computes the maximum number of target tokens for each source, as `decoding` does: int32 tensors `(sources,)`.

    Both numbers, of source tokens and of target tokens, count the end of sequence.
    """
    words = tf.cast(lengths - 1, tf.float32)
    limits = tf.maximum(MIN_LIMIT, tf.cast(tf.math.ceil(LENGTH_FACTOR * words), tf.int32)) + 1
    return tf.where(lengths > 1, limits, 1)


class SearchResults(NamedTuple):
    """The results of a search in a graph. If a source has fewer hypotheses, the ids of the missing ones are 0.

    Attributes:
        ids: int32 tensor `(sources, results, t)`, closed by the end of sequence and padded with 0.
        log_probs: float32 tensor `(sources, results)`: ln p of each hypothesis in nats; the lowest float32 for a
            missing one, because JSON has no infinity.
        scores: float32 tensor `(sources, results)`: the score that ranks each hypothesis; the lowest float32 for a
            missing one.
        links: int32 tensor `(sources, results, t)`: the position s of the source word that each token attends to most;
            -1 - s if the token attends more to the end of the source; 0 for a model without attention.
    """

    ids: tf.Tensor
    log_probs: tf.Tensor
    scores: tf.Tensor
    links: tf.Tensor


class Searchable(Protocol):
    """The part of a `Decoder` that a search needs."""

    has_attention: bool

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        """See `Decoder.start`."""

    def next_log_probs(
        self, previous: tf.Tensor, state: State, memory: Memory, *, candidates: Tensors | None = None
    ) -> tuple[tf.Tensor, State]:
        """See `Decoder.next_log_probs`."""

    def candidate_weights(self, words: tf.Tensor, allowed: tf.Tensor) -> Tensors:
        """See `Decoder.candidate_weights`."""


def search_in_graph(
    decoder: Searchable,
    encoded: Tensors,
    lengths: tf.Tensor,
    limits: tf.Tensor,
    sampler: Sampler,
    inputs: Tensors,
    allowed: tf.Tensor | None = None,
) -> SearchResults:
    """Generates targets for sources: the same targets as `keras_encdec.decoding.Generator` finds with the sampler.

    Args:
        decoder: Searchable, such as a Decoder.
        encoded: dict of tensors, the encoder's output, one row per source.
        lengths: int32 tensor `(sources,)`: number of tokens of each source, with the end of sequence.
        limits: int32 tensor `(sources,)` from `target_limits`.
        sampler: Sampler.
        inputs: dict of tensors `(sources,)`, see `RegisteredSampler.inputs`. A sampler that draws needs "seed", int64:
            equal seeds give equal draws in any batch. The other inputs are arguments of the sampler's `initial`.
        allowed: boolean tensor `(sources, ids)`: the ids that targets of each source may contain. Defaults to `None`:
            all ids.

    Raises:
        ConfigurationError: a ValueError, if the sampler needs attention and the decoder has none.
    """
    sampler.check_attention(decoder.has_attention)
    sources, width = tf.size(limits), tf.reduce_max(tf.concat([[1], limits], 0))
    size = max(1, MAX_ROWS // sampler.rows_per_source)
    shape = tf.stack([sources, sampler.results_per_source])
    tokens = tf.zeros(tf.concat([shape, [width]], 0), tf.int32)
    results = tokens, tf.zeros(shape), tf.zeros(shape), tokens

    def part(start: tf.Tensor, *results: tf.Tensor) -> tuple[tf.Tensor, ...]:
        indices = tf.range(start, tf.minimum(start + size, sources))
        encoded_part, inputs_part = (
            {name: tf.gather(tensor, indices) for name, tensor in tensors.items()} for tensors in (encoded, inputs)
        )
        lengths_part, limits_part = tf.gather(lengths, indices), tf.gather(limits, indices)

        def search(candidates: SearchCandidates | None) -> tuple[tf.Tensor, ...]:
            return _search(decoder, sampler, encoded_part, lengths_part, limits_part, inputs_part, width, candidates)

        parts = search(None) if allowed is None else _among(decoder, tf.gather(allowed, indices), search)
        pairs = zip(results, parts, strict=True)
        return start + size, *(tf.tensor_scatter_nd_update(whole, indices[:, None], rows) for whole, rows in pairs)

    _, ids, log_probs, scores, links = sequential_loop(lambda start, *_: start < sources, part, (0, *results))
    return SearchResults(ids, tf.maximum(log_probs, tf.float32.min), tf.maximum(scores, tf.float32.min), links)


class SearchCandidates(NamedTuple):
    """Candidate words of a group of sources, for a search.

    Attributes:
        words: int32 tensor `(candidates,)`, ids.
        weights: dict, see `Decoder.candidate_weights`.
    """

    words: tf.Tensor
    weights: Tensors


def _among(
    decoder: Searchable, allowed: tf.Tensor, search: Callable[[SearchCandidates | None], tuple[tf.Tensor, ...]]
) -> tuple[tf.Tensor, ...]:
    """Runs a search among the words that any target of the group may contain.

    The samplers need a fixed number of words: `CANDIDATES`, or all ids if the group has more candidates.
    """
    ids = allowed.shape[-1]
    words = tf.reshape(tf.cast(tf.where(tf.reduce_any(allowed, axis=0)), tf.int32), [-1])

    def among(words: tf.Tensor, allowed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return search(SearchCandidates(words, decoder.candidate_weights(words[None], allowed)))

    def among_few() -> tuple[tf.Tensor, ...]:
        number = tf.size(words)
        padded = tf.ensure_shape(tf.pad(words, [[0, CANDIDATES - number]]), [CANDIDATES])
        return among(padded, tf.gather(allowed, padded, axis=1) & (tf.range(CANDIDATES) < number))

    def among_all() -> tuple[tf.Tensor, ...]:
        return among(tf.range(ids), allowed)

    return among_all() if ids <= CANDIDATES else tf.cond(tf.size(words) <= CANDIDATES, among_few, among_all)


class _Hypotheses(NamedTuple):
    """Hypotheses of each source in the loop: partial ones, which may grow, or kept ones, which have ended.

    Attributes:
        tokens, links: int32 tensors `(sources, hypotheses, width)`.
        log_probs: float32 tensor `(sources, hypotheses)`.
    """

    tokens: tf.Tensor
    links: tf.Tensor
    log_probs: tf.Tensor

    @classmethod
    def empty(cls, sources: tf.Tensor, hypotheses: int, width: tf.Tensor, log_prob: float) -> Self:
        """Returns hypotheses without tokens."""
        tokens = tf.zeros(tf.stack([sources, hypotheses, width]), tf.int32)
        return cls(tokens, tokens, tf.fill(tf.stack([sources, hypotheses]), log_prob))

    def with_tokens(self, tokens: tf.Tensor, log_probs: tf.Tensor, now: tf.Tensor) -> Self:
        """Adds a token `(sources, hypotheses, 1)` to each hypothesis where `now`, `(width,)`, is 1."""
        return self._replace(tokens=self.tokens + tokens * now, log_probs=self.log_probs + log_probs)

    def with_links(self, links: tf.Tensor, now: tf.Tensor) -> Self:
        """Adds the link `(sources, hypotheses)` of a token to each hypothesis, as `with_tokens`."""
        return self._replace(links=self.links + links[:, :, None] * now)

    def and_these(self, others: Self, chosen: tf.Tensor) -> Self:
        """Chooses from these hypotheses and others by their numbers `(sources, n)`; the others come last."""
        both = zip(self, others, strict=True)
        return type(self)(*(tf.gather(tf.concat(each, axis=1), chosen, batch_dims=1) for each in both))

    def rows(self, indices: tf.Tensor) -> Self:
        """Returns the hypotheses with the given numbers `(sources, hypotheses)`."""
        return type(self)(*(tf.gather(tensor, indices, batch_dims=1) for tensor in self))


def _search(
    decoder: Searchable,
    sampler: Sampler,
    encoded: Tensors,
    lengths: tf.Tensor,
    limits: tf.Tensor,
    inputs: Tensors,
    width: tf.Tensor,
    candidates: SearchCandidates | None,
) -> tuple[tf.Tensor, ...]:
    """Runs the loop of the search for one group of sources; the ids and links have `width` tokens."""
    rows, sources = sampler.rows_per_source, tf.size(limits)
    seeds, arguments = inputs.get("seed"), {name: value for name, value in inputs.items() if name != "seed"}
    state, memory = decoder.start(encoded)
    if rows > 1:
        state = tf.nest.map_structure(lambda tensor: tf.repeat(tensor, rows, axis=0), state)
    if decoder.has_attention:
        is_word = tf.sequence_mask(lengths - 1, tf.shape(state["attention"])[1])[:, None, :]
    if sampler.needs_attention:
        arguments["source_mask"] = tf.sequence_mask(lengths, tf.shape(state["attention"])[1])

    def step(
        t: tf.Tensor, words: tf.Tensor, partial: _Hypotheses, kept: _Hypotheses, search: SearchState, state: Tensors
    ) -> tuple[tf.Tensor, tf.Tensor, _Hypotheses, _Hypotheses, SearchState, Tensors]:
        weights = candidates and candidates.weights
        next_log_probs, state = decoder.next_log_probs(tf.reshape(words, [-1]), state, memory, candidates=weights)
        draws = _draws(seeds, t, rows) if sampler.needs_draws else None
        now = tf.one_hot(t, width, dtype=tf.int32)
        needed = {}
        if decoder.has_attention:
            attention = tf.reshape(state["attention"], [sources, rows, -1])
            partial = partial.with_links(_links(attention, is_word), now)
            needed = {"attention": tf.cast(attention, tf.float32)} if sampler.needs_attention else {}
        choice, search = sampler.step(next_log_probs, search, draws, **needed)
        if candidates:
            choice = choice._replace(words=tf.gather(candidates.words, choice.words))
        kept = kept.and_these(partial.with_tokens(END, choice.end_log_probs, now), choice.kept)
        if choice.parents is not None:
            partial = partial.rows(choice.parents)
            parents = tf.reshape(choice.parents + rows * tf.range(sources)[:, None], [-1])
            state = tf.nest.map_structure(lambda tensor: tf.gather(tensor, parents), state)
        partial = partial.with_tokens(choice.words[:, :, None], choice.log_probs, now)
        return t + 1, choice.words, partial, kept, search, state

    def condition(t: tf.Tensor, *variables: Structure) -> tf.Tensor:
        return (t < width) & tf.reduce_any(variables[-2]["searching"])

    variables = (
        tf.constant(0),
        tf.zeros(tf.stack([sources, rows]), tf.int32),
        _Hypotheses.empty(sources, rows, width, 0.0),
        _Hypotheses.empty(sources, sampler.results_per_source, width, -float("inf")),
        sampler.initial(limits, **arguments),
        state,
    )
    # The first shapes may fix the number of sources; the shapes of the loop must leave it open.
    shapes = tf.nest.map_structure(
        lambda tensor: tf.TensorShape([None] * len(tensor.shape[:1]) + tensor.shape[1:]), variables
    )
    *_, kept, search, _ = sequential_loop(condition, step, variables, shapes)
    return kept.tokens, kept.log_probs, search.get("scores", kept.log_probs), kept.links


def _links(attention: tf.Tensor, is_word: tf.Tensor) -> tf.Tensor:
    """Finds the position s of the word with the largest weight; -1 - s if the end of the source has a larger weight."""
    weights = tf.where(is_word, attention, -1)
    link = tf.argmax(weights, axis=-1, output_type=tf.int32)
    return tf.where(tf.reduce_max(attention, axis=-1) > tf.reduce_max(weights, axis=-1), -1 - link, link)


def _draws(seeds: tf.Tensor, t: tf.Tensor, rows: int) -> tf.Tensor:
    """Draws numbers from [0, 1) `(sources, rows)`, which depend only on the source's seed, the step and the row."""
    keys = tf.strings.join([tf.strings.as_string(seeds), tf.strings.as_string(t)], separator=" ")
    keys = tf.stack([keys] + [tf.strings.join([keys, str(row)], separator=" ") for row in range(1, rows)], axis=1)
    return tf.cast(tf.strings.to_hash_bucket_fast(keys, DRAWS), tf.float32) / DRAWS


def alignment_text(words: tf.Tensor, ids: tf.Tensor, links: tf.Tensor) -> tf.Tensor:
    """Writes the source word that each target word is linked to in Moses's format, `(sources, results)`: "0-0 2-1".

    Links with negative source positions are not written.

    Args:
        words: string tensor `(sources, results, t)`; several words that replace one are separated by spaces.
        ids, links: int32 tensors of the same shape, see `SearchResults`.
    """
    spaces = tf.strings.length(words) - tf.strings.length(tf.strings.regex_replace(words, " ", ""))
    number = tf.where((ids == END) | (ids == PADDING), 0, 1 + spaces)
    is_linked = tf.sequence_mask(tf.where(links < 0, 0, number))
    position = tf.cumsum(number, axis=-1, exclusive=True)[..., None] + tf.range(tf.shape(is_linked)[-1])
    link = tf.broadcast_to(links[..., None], tf.shape(is_linked))
    text = tf.strings.join([tf.strings.as_string(link), tf.strings.as_string(position)], separator="-")
    joined = tf.strings.reduce_join(tf.where(is_linked, text + " ", ""), axis=[-1, -2])
    return tf.strings.strip(joined)
