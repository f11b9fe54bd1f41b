import numpy as np
import pytest

from keras_encdec.analysis.score_statistics import bleu_by_length, scores_by_frequency, scores_by_length


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
    assert [(one.shortest, one.longest, one.sentences) for one in bins] == [(4, 4, 4), (6, 6, 4), (9, 12, 4)]
    assert [one.words for one in bins] == ["4", "6", "9–12"]
    first = sacrebleu.corpus_bleu(translations[:4], [references[:4]], tokenize="none", force=True).score
    assert bins[0].bleu == pytest.approx(first)
