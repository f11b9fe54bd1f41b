"""Tests of scores whose probabilities are shared among candidate words."""

import keras
import numpy as np
import pytest
from hybrid_toys import PAIRS as HYBRID_PAIRS
from hybrid_toys import hybrid, ids_of
from layer_checks import numpy
from recurrent_toys import toy, toy_language_model

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.models import Decoder, RNNEncoderDecoder
from keras_encdec.scoring import Scorer, candidate_sums
from keras_encdec.scoring.scorer import PairSpellings

SPECIAL = [0, 1, 2]


def paper_model():
    keras.utils.set_random_seed(0)
    model = RNNEncoderDecoder(23, 700, embedding_dim=6, units=16, maxout_units=8, output_rank=5)
    random = np.random.default_rng(0)
    model.set_weights([random.normal(0, 0.4, weight.shape) for weight in model.weights])
    return model


def attention_model():
    return toy(attention="global")


def random_words(random, words, longest):
    return [*random.integers(3, 3 + words, random.integers(0, longest + 1)).tolist(), 2]


def some_pairs(model, sources=12, targets=40, seed=1):
    """Pairs with several targets for each source, whose candidates are an array for each pair."""
    random = np.random.default_rng(seed)
    pairs, candidates = [], []
    for _ in range(sources):
        source = random_words(random, model.source_words, 6)
        share = random.choice([0, 0.05, 0.5, 1])
        words = np.flatnonzero(random.random(model.target_words + 3) < share)
        for _ in range(random.integers(1, targets + 1)):
            pairs.append((source, random_words(random, model.target_words, 5)))
            candidates.append(words.copy())
    order = random.permutation(len(pairs))
    return [pairs[i] for i in order], [candidates[i] for i in order]


def expected_tokens(model, pairs, candidates):
    """ln p of each token, from the distribution over all words."""
    sources, targets = (pad([pair[side] for pair in pairs]) for side in (0, 1))
    logits = numpy(model.decoder(Decoder.previous_words(targets), model.encoder(sources))).astype(np.float64)
    results = []
    for row, (_, target), words in zip(logits, pairs, candidates, strict=True):
        among = [[*{*SPECIAL, *words.tolist(), word}] for word in target]
        sums = [np.logaddexp.reduce(row[t, ids]) for t, ids in enumerate(among)]
        results.append(row[np.arange(len(target)), target] - sums)
    return results


@pytest.fixture(scope="module", params=[paper_model, attention_model])
def model(request):
    return request.param()


@pytest.mark.parametrize("height", [1, 16])
def test_probabilities_are_shared_among_the_candidates_and_the_word(model, monkeypatch, height):
    monkeypatch.setattr(candidate_sums, "MIN_HEIGHT", height)
    monkeypatch.setattr(candidate_sums, "MAX_HEIGHT", height)
    pairs, candidates = some_pairs(model)
    expected = expected_tokens(model, pairs, candidates)
    scorer = Scorer(model)
    np.testing.assert_allclose(scorer.score(pairs, candidates=candidates), [row.sum() for row in expected], atol=1e-4)
    for row, wanted in zip(scorer.token_scores(pairs, candidates=candidates), expected, strict=True):
        np.testing.assert_allclose(row, wanted, atol=1e-4)


def test_with_all_words_as_candidates_a_score_is_that_of_all_words(model):
    pairs, _ = some_pairs(model, sources=3, targets=5)
    scorer, all_words = Scorer(model), np.arange(model.target_words + 3)
    expected = scorer.score(pairs)
    np.testing.assert_allclose(scorer.score(pairs, candidates=[all_words] * len(pairs)), expected, atol=1e-4)


def test_rare_words_are_spelled_after_the_unknown_word():
    model, ((sources, targets), tables) = hybrid(), ids_of(HYBRID_PAIRS)
    pairs, spellings = list(zip(sources, targets, strict=True)), PairSpellings(*tables)
    scorer, all_words = Scorer(model), np.arange(model.target_words + 3)
    expected = scorer.score(pairs, spellings)
    for words, at_least in ((all_words, 0.0), (all_words[:0], 0.01)):
        gain = scorer.score(pairs, spellings, [words] * len(pairs)) - expected
        np.testing.assert_allclose(gain if at_least == 0 else np.minimum(gain, at_least), at_least, atol=1e-4)


def test_a_score_does_not_depend_on_the_other_pairs(model, monkeypatch):
    pairs, candidates = some_pairs(model, sources=12, targets=6, seed=2)
    # A source twice, with other candidates, as sources of unknown words have.
    pairs += pairs[:5]
    candidates += [words[::2] for words in candidates[:5]]
    scorer = Scorer(model)
    expected = [scorer.score([pair], candidates=[words])[0] for pair, words in zip(pairs, candidates, strict=True)]
    np.testing.assert_allclose(scorer.score(pairs, candidates=candidates), expected, atol=1e-4)
    assert expected[:5] != expected[-5:]
    monkeypatch.setattr(candidate_sums, "TILES", 4)  # several calls
    monkeypatch.setattr(candidate_sums, "TOGETHER", 2)
    np.testing.assert_allclose(Scorer(model).score(pairs, candidates=candidates), expected, atol=1e-4)


def test_hypotheses_have_the_scores_by_which_a_search_with_candidates_ranks_them(model):
    random = np.random.default_rng(3)
    sources = [random_words(random, model.source_words, 6) for _ in range(5)]
    candidates = [random.choice(np.arange(3, model.target_words + 3), 5, replace=False) for _ in sources]
    found = Generator(model).generate(sources, BeamSampler(4, num_best=4), candidates=candidates)
    pairs = [
        (source, hypothesis.ids) for source, found_here in zip(sources, found, strict=True) for hypothesis in found_here
    ]
    words = [words for words, found_here in zip(candidates, found, strict=True) for _ in found_here]
    expected = [hypothesis.log_prob for found_here in found for hypothesis in found_here]
    np.testing.assert_allclose(Scorer(model).score(pairs, candidates=words), expected, atol=1e-4)


def test_attention_comes_with_the_scores():
    model = attention_model()
    pairs, candidates = some_pairs(model, sources=3, targets=5)
    scorer = Scorer(model)
    tokens, weights = scorer.token_scores_with_attention(pairs, candidates=candidates)
    np.testing.assert_allclose([row.sum() for row in tokens], scorer.score(pairs, candidates=candidates), atol=1e-5)
    for row, expected in zip(weights, scorer.token_scores_with_attention(pairs)[1], strict=True):
        np.testing.assert_allclose(row, expected, atol=1e-5)


def low_precision_dtypes():
    """The dtypes of low precision that this backend computes scores in on this machine."""
    try:
        Scorer(attention_model(), "int8").close()
    except ConfigurationError:
        return ["bfloat16"]
    return ["bfloat16", "int8"]


@pytest.mark.parametrize("dtype", low_precision_dtypes())
def test_the_output_layer_is_computed_in_float32(model, dtype):
    pairs, _ = some_pairs(model, sources=4, targets=10)
    nothing = [np.arange(0)] * len(pairs)
    found, expected = (Scorer(model, chosen).score(pairs, candidates=nothing) for chosen in (dtype, None))
    assert (found < 0).all(), "otherwise, the logit of a word is rounded in another way than the sum with it"
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.2)


def test_candidates_must_suit_the_model_and_the_pairs(model):
    scorer, pair = Scorer(model), ([3, 2], [3, 2])
    for wrong in ([model.target_words + 3], [-1]):
        with pytest.raises(ValueError, match=f"expected ids from 0 to {model.target_words + 2}"):
            scorer.score([pair], candidates=[wrong])
    with pytest.raises(ValueError, match="found 1 lists of candidates for 2 pairs, expected one list for each pair"):
        scorer.score([pair, pair], candidates=[[3]])
    with pytest.raises(ValueError, match="found candidates with a language model, which has no source"):
        Scorer(toy_language_model()).score([pair], candidates=[[3]])
