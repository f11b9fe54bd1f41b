import math

import numpy as np
import pytest

from keras_encdec.analysis import ScoreComparison, TablePair, perplexity
from keras_encdec.analysis.score_statistics import bleu_by_length, scores_by_frequency, scores_by_length
from keras_encdec.models import RNNEncoderDecoder, from_symbols, to_symbols

PROBABILITIES = [0.5, 0.0, 0.25, 1.0, 0.25]
PAIRS = [TablePair("s", f"t {i}", probability, 1) for i, probability in enumerate(PROBABILITIES)]


def test_scores_are_compared_in_nats_without_pairs_of_probability_0():
    comparison = ScoreComparison.of(PAIRS, np.array([-1.0, -5.0, -2.0, -4.0, -0.5]))
    assert comparison.left_out == 1 and [pair.target for pair in comparison.pairs] == ["t 0", "t 2", "t 3", "t 4"]
    np.testing.assert_allclose(comparison.table, np.log([0.5, 0.25, 1, 0.25]))
    expected = np.corrcoef(comparison.table, comparison.model)[0, 1]
    assert comparison.correlation == pytest.approx(expected)
    ranks = np.corrcoef([3, 1.5, 4, 1.5], [3, 2, 1, 4])[0, 1]
    assert comparison.rank_correlation == pytest.approx(ranks)


def test_the_most_differing_pairs_are_found():
    comparison = ScoreComparison.of(PAIRS, np.array([-1.0, -5.0, -2.0, -4.0, -0.5]))
    more, less = comparison.most_differing(2)
    assert more.tolist() == [3], "the only one that the model gives more"
    assert less.tolist() == [2, 1]


def test_a_single_pair_has_no_correlation():
    comparison = ScoreComparison.of(PAIRS[:1], np.array([-1.0]))
    assert math.isnan(comparison.correlation) and math.isnan(comparison.rank_correlation)


def test_the_view_leaves_out_the_few_pairs_of_very_low_scores():
    pairs = [TablePair("s", f"t {i}", 0.25 + i / 2000, 1) for i in range(1000)]
    scores = np.linspace(-3, -1, 1000)
    scores[17] = -50
    left, bottom, right, top = ScoreComparison.of(pairs, scores).view
    assert -4 < bottom < -3 and top == -1 and left < np.log(0.25) and right == pytest.approx(np.log(0.7495))
    assert ScoreComparison.of(pairs, scores).out_of_view == 1
    assert ScoreComparison.of(pairs[:1], scores[:1]).out_of_view == 0


def test_quartiles_by_length():
    scores = np.linspace(-2, 0, 41)
    binned = scores_by_length([3] * 20 + [5] * 20 + [99], scores)
    assert (binned.keys, binned.counts) == ([3, 5], [20, 20]), "a bin of one pair says nothing"
    np.testing.assert_allclose(binned.quartiles[0], np.percentile(scores[:20], [25, 50, 75]))
    assert scores_by_length([3, 500], np.array([-1.0, -2.0])).keys == [3, 60], "where all bins are small, all are shown"


def test_frequencies_are_binned_by_powers_of_two():
    binned = scores_by_frequency([1, 2, 3, 4, 7, 8], np.arange(6.0))
    assert (binned.keys, binned.counts) == ([1, 2, 4, 8], [1, 2, 2, 1])


def test_bleu_by_length():
    sacrebleu = pytest.importorskip("sacrebleu", reason="BLEU needs the extra smt: pip install '.[smt]'")
    references = [f"this is the reference number {i} of all" for i in range(12)]
    translations = [text if i % 2 else text.replace("the", "a") for i, text in enumerate(references)]
    lengths = [4, 4, 4, 4, 6, 6, 6, 6, 9, 9, 12, 12]
    whole, bins = bleu_by_length(lengths, translations, references, bins=3)
    expected = sacrebleu.corpus_bleu(translations, [references], tokenize="none", force=True).score
    assert whole == pytest.approx(expected)
    assert [(bin_.shortest, bin_.longest, bin_.sentences) for bin_ in bins] == [(4, 4, 4), (6, 6, 4), (9, 12, 4)]
    assert [bin_.words for bin_ in bins] == ["4", "6", "9–12"]
    first = sacrebleu.corpus_bleu(translations[:4], [references[:4]], tokenize="none", force=True).score
    assert bins[0].bleu == pytest.approx(first)


rng = np.random.default_rng(0)
BATCHES = [
    {"source": np.array([[4, 5, 2], [3, 2, 0]], "int32"), "target": np.array([[3, 2, 0], [5, 4, 2]], "int32")},
    {"source": np.array([[6, 2]], "int32"), "target": np.array([[2]], "int32")},
]


def stirred():
    model = RNNEncoderDecoder(5, 5, embedding_dim=3, units=6, maxout_units=4, output_rank=3)
    return from_symbols(model, {name: rng.normal(0, 0.5, array.shape) for name, array in to_symbols(model).items()})


def test_perplexity_is_exp_of_minus_the_mean_over_tokens_of_all_batches():
    model = stirred()
    total = sum(float(np.sum(np.asarray(model.score(**batch)))) for batch in BATCHES)
    assert math.isclose(perplexity(model, BATCHES), math.exp(-total / 6), rel_tol=1e-5)


def test_perplexity_without_the_source_ignores_the_sources():
    model = stirred()
    other = [{**batch, "source": np.full_like(batch["source"], 2)} for batch in BATCHES]
    assert perplexity(model, BATCHES) != perplexity(model, other)
    assert perplexity(model, BATCHES, with_source=False) == perplexity(model, other, with_source=False)
