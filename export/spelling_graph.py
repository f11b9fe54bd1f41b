"""Spells the unknown words of generated targets inside an exported graph."""

from typing import NamedTuple

import tensorflow as tf

from keras_encdec.backend.types import Encoded, Memory, State
from keras_encdec.decoding.beam_sampler import BeamSampler
from keras_encdec.decoding.generator import CHARACTER_BEAM
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.export.scoring_graph import Tensors, TokenStates, over_tokens
from keras_encdec.export.search_graph import SearchResults, search_in_graph
from keras_encdec.models.characters import CharacterDecoder, without_unspellable
from keras_encdec.models.contract import Decoder
from keras_encdec.text.spelling import LONGEST_WORD
from keras_encdec.text.vocabulary import UNKNOWN

# Seeds of the characters of a word are below this number.
SEEDS = 1 << 62


class SpeltResults(NamedTuple):
    """The results of a search, with the spellings of their unknown words.

    Attributes:
        results: SearchResults; ln p and scores include those of the characters.
        spelling_log_probs: float32 tensor `(sources, results)`: ln p of the characters alone, in nats.
        spellings: int32 tensor `(words, t)`, ids of characters, closed by the end mark and padded with 0.
        word: int32 tensor `(sources, results, t)`: the row in `spellings` of each unknown word; -1 for other tokens.
    """

    results: SearchResults
    spelling_log_probs: tf.Tensor
    spellings: tf.Tensor
    word: tf.Tensor


def spell_in_graph(
    decoder: Decoder, encoded: Tensors, results: SearchResults, sampler: Sampler, inputs: Tensors
) -> SpeltResults:
    """Spells the unknown words of the results of a search, as `decoding.UnknownSpeller` does.

    Args:
        decoder: Decoder with a speller.
        encoded: dict of tensors, the encoder's output, one row per source.
        results: SearchResults, one row per source.
        sampler: Sampler that generated them.
        inputs: dict of tensors `(sources,)`, see `search_in_graph`.

    Returns:
        SpeltResults, the best first; samples in the order of drawing.
    """
    assert decoder.speller is not None
    of_characters = sampler.of_characters() or BeamSampler(CHARACTER_BEAM)
    sources, number, _ = tf.unstack(tf.shape(results.ids))
    ids = tf.reshape(results.ids, [sources * number, -1])
    is_unknown = ids == UNKNOWN
    # The number of each unknown word, in order.
    word = tf.where(
        is_unknown, tf.reshape(tf.cumsum(tf.cast(tf.reshape(is_unknown, [-1]), tf.int32)), tf.shape(ids)), 0
    )
    word -= 1
    hypothesis, position = tf.unstack(tf.cast(tf.where(is_unknown), tf.int32), axis=1)

    def put_first(tokens: TokenStates, first: tf.Tensor) -> tf.Tensor:
        tokens = tokens.where(tf.gather_nd(is_unknown, tokens.indices))
        states = decoder.spelling_state(tokens.state, tokens.memory, tokens.source)
        return tf.tensor_scatter_nd_update(first, tf.gather_nd(word, tokens.indices)[:, None], states)

    lengths = tf.math.count_nonzero(ids, axis=1, dtype=tf.int32)
    source_of_hypothesis = tf.repeat(tf.range(sources), number)
    empty = tf.zeros([tf.size(hypothesis), decoder.speller.units])
    first = over_tokens(decoder, ids, lengths, encoded, source_of_hypothesis, put_first, empty)
    of_word = {name: tf.gather(values, hypothesis // number) for name, values in inputs.items()}
    if "seed" in of_word:
        keys = [of_word["seed"], tf.cast(hypothesis % number, tf.int64), tf.cast(position, tf.int64)]
        text = tf.strings.join([tf.strings.as_string(key) for key in keys], separator=" ")
        of_word["seed"] = tf.strings.to_hash_bucket_fast(text, SEEDS)
    ones = tf.ones_like(hypothesis)
    speller = _Speller(decoder.speller.decoder)
    found = search_in_graph(speller, {"spelling": first}, ones, LONGEST_WORD * ones, of_characters, of_word)
    sums = tf.math.unsorted_segment_sum(found.log_probs[:, 0], hypothesis, sources * number)
    spelling_log_probs = tf.reshape(sums, [sources, number])
    tokens = tf.cast(tf.reshape(lengths, [sources, number]), tf.float32)
    results = results._replace(
        log_probs=results.log_probs + spelling_log_probs,
        scores=results.scores + sampler.score_gain(spelling_log_probs, tokens),
    )
    tables = [*results, spelling_log_probs, tf.reshape(word, tf.shape(results.ids))]
    if not sampler.needs_draws:
        order = tf.argsort(-results.scores, stable=True)
        tables = [tf.gather(table, order, batch_dims=1) for table in tables]
    *fields, spelling_log_probs, word = tables
    return SpeltResults(SearchResults(*fields), spelling_log_probs, found.ids[:, 0], word)


class _Speller:
    """A `CharacterDecoder` for `search_in_graph`, which spells only what can be written."""

    carries_attention = False

    def __init__(self, decoder: CharacterDecoder) -> None:
        self._decoder = decoder

    def start(self, encoded: Encoded) -> tuple[State, Memory]:
        return self._decoder.start(encoded)

    def next_log_probs(
        self, previous: tf.Tensor, state: State, memory: Memory, candidates: Tensors | None = None
    ) -> tuple[tf.Tensor, State]:
        log_probs, state = self._decoder.next_log_probs(previous, state, memory)
        return without_unspellable(log_probs, previous), state

    def candidate_weights(self, words: tf.Tensor, allowed: tf.Tensor) -> Tensors:
        return self._decoder.candidate_weights(words, allowed)
