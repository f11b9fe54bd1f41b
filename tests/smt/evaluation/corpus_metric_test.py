"""The counts and scores of corpora, compared with sacrebleu's own."""

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_encdec.configuration import ConfigurationError
from keras_encdec.smt.evaluation import CorpusMetric

REFERENCES = [
    ["the cat sat on the mat .", "a dog runs", "", "it is l ' été here and now today", "yes"],
    ["a cat sat on a mat .", "the dog runs fast", "no", "l ' été is here and now today", "yes"],
]
HYPOTHESES = ["the cat sat on a mat .", "dog runs a", "yes", "it is l ' été here , today and now", ""]
SACREBLEU = {
    "bleu": lambda *texts: sacrebleu.corpus_bleu(*texts, tokenize="none", force=True),
    "chrf": sacrebleu.corpus_chrf,
    "ter": sacrebleu.corpus_ter,
}
WORDS = st.lists(st.sampled_from(["a", "b", "c", "dé", "."]), max_size=7).map(" ".join)


@pytest.mark.parametrize("name", SACREBLEU)
@pytest.mark.parametrize("references", [REFERENCES, REFERENCES[:1]], ids=["two", "one"])
def test_scores_are_those_of_sacrebleu_to_the_last_digit(name, references):
    metric = CorpusMetric(name, references)
    expected = SACREBLEU[name](HYPOTHESES, references)
    counts = metric.corpus_counts(HYPOTHESES)
    assert metric.score(counts.sum(axis=0)) == expected.score and metric.label == expected.name
    np.testing.assert_allclose(metric.scores(counts.sum(axis=0)), expected.score, rtol=1e-13)
    assert counts.shape == (5, metric.size) and metric.signature.startswith(f"nrefs:{len(references)}|case:")


@pytest.mark.parametrize("name", SACREBLEU)
@settings(max_examples=15)
@given(data=st.data())
def test_many_corpora_are_scored_at_once(name, data):
    size = data.draw(st.integers(1, 3))
    references = [data.draw(st.lists(WORDS, min_size=size, max_size=size))]
    metric = CorpusMetric(name, references)
    corpora = [data.draw(st.lists(WORDS, min_size=size, max_size=size)) for _ in range(3)]
    counts = np.stack([metric.corpus_counts(corpus).sum(axis=0) for corpus in corpora])
    expected = [SACREBLEU[name](corpus, references).score for corpus in corpora]
    assert [metric.score(summed) for summed in counts] == expected
    np.testing.assert_allclose(metric.scores(counts), expected, rtol=1e-12)


def test_tokenizers_are_those_of_sacrebleu():
    metric = CorpusMetric("bleu", [["The cat, here, sat down."]], tokenize="13a")
    counts = metric.corpus_counts(["The cat , here, sat."])
    assert (
        metric.score(counts.sum(axis=0))
        == sacrebleu.corpus_bleu(["The cat , here, sat."], [["The cat, here, sat down."]]).score
    )
    assert "tok:13a" in metric.signature


def test_unknown_metrics_and_tokenizers_are_refused():
    with pytest.raises(ConfigurationError, match="found metric='rouge', expected one of bleu, chrf, ter"):
        CorpusMetric("rouge", REFERENCES)
    with pytest.raises(ConfigurationError, match="found tokenize='words', expected one of none, 13a"):
        CorpusMetric("bleu", REFERENCES, tokenize="words")


def test_a_list_of_references_is_expected_and_a_hypothesis_for_each_sentence():
    references = ["the cat sat on the mat", "a dog ran"]
    with pytest.raises(ValueError, match="found the text 'the cat sat on the mat', expected a list of texts"):
        CorpusMetric("bleu", references)
    metric = CorpusMetric("bleu", iter([references]))
    assert metric.corpus_counts(references).shape == (2, 10)
    with pytest.raises(ValueError, match="found 1 hypotheses, expected one for each of 2 sentences"):
        metric.corpus_counts(references[:1])


def test_sentence_bleu_adds_one_to_the_longer_matches_and_to_the_reference_length():
    references, hypotheses = ["a b c d e f", "a b"], ["a b c d x", "c d"]
    metric = CorpusMetric("bleu", [references])
    # 4 of 5 words, 3 of 4 bigrams, 2 of 3 trigrams and 1 of 2 4-grams match; 6 + 1 words against 5.
    expected = np.exp(1 - 7 / 5) * (4 / 5 * (3 + 1) / (4 + 1) * (2 + 1) / (3 + 1) * (1 + 1) / (2 + 1)) ** (1 / 4)
    np.testing.assert_allclose(metric.sentence_scores(metric.corpus_counts(hypotheses)), [expected, 0], rtol=1e-12)


def test_other_sentence_scores_are_those_of_the_metric():
    metric = CorpusMetric("chrf", REFERENCES[:1])
    counts = metric.corpus_counts(HYPOTHESES)
    np.testing.assert_allclose(metric.sentence_scores(counts), [metric.score(each) / 100 for each in counts])
