"""Tests of significance, compared with sacrebleu's own."""

import itertools

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from keras_encdec.smt.evaluation import CorpusMetric, approximate_randomization, paired_bootstrap, significance

WORDS = ["a", "b", "c", "d", "e", "f"]


def texts(rng, sentences, flaws, reference=None):
    """Sentences, or a reference's with some words changed."""
    if reference is None:
        return [" ".join(rng.choice(WORDS, rng.integers(4, 9))) for _ in range(sentences)]
    return [
        " ".join([str(rng.choice(WORDS)) if rng.random() < flaws else word for word in line.split()])
        for line in reference
    ]


@pytest.fixture(scope="module")
def systems():
    """A metric, and hypotheses of three runs of a baseline and of a system that is a little better."""
    rng = np.random.default_rng(1)
    reference = texts(rng, 60, 0)
    runs = {flaws: [texts(rng, 60, flaws, reference) for _ in range(3)] for flaws in (0.30, 0.25)}
    metric = CorpusMetric("bleu", [reference])
    return metric, reference, runs[0.30], runs[0.25]


@pytest.mark.parametrize("cells", [1 << 22, 4096])
def test_with_one_run_of_each_system_the_tests_are_those_of_sacrebleu(systems, cells, monkeypatch):
    monkeypatch.setattr(significance, "_CELLS", cells)
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    metric, reference, (base, *_), (better, *_) = systems
    counts = [[metric.corpus_counts(text)] for text in (better, base)]
    named = [("base", base), ("better", better)]
    for kind, samples in (("bs", 200), ("ar", 300)):
        test = PairedTest(named, {"BLEU": BLEU(tokenize="none", force=True)}, [reference], kind, n_samples=samples)
        expected = test()[1]["BLEU"][1]
        if kind == "bs":
            result = paired_bootstrap(*counts, metric.scores, samples)
            assert result == pytest.approx((expected.p_value, expected.ci), abs=1e-5)  # theirs is float32
        else:
            assert approximate_randomization(*counts, metric.scores, samples) == pytest.approx(expected.p_value)


def test_a_system_does_not_differ_from_itself(systems):
    metric, _, runs, _ = systems
    counts = [metric.corpus_counts(text) for text in runs]
    for number in (1, 3):
        assert paired_bootstrap(counts[:number], counts[:number], metric.scores, 50).p_value == 1
        assert approximate_randomization(counts[:number], counts[:number], metric.scores, 50) == 1


def test_hypotheses_of_all_runs_are_dealt_out_within_their_sentences(systems):
    """The p-value is that of all deals, which are few for two sentences with three and two runs."""
    metric, _, base, better = systems
    counts = [[metric.corpus_counts(text)[:2] for text in runs] for runs in (better[:2], base)]
    system, baseline = (np.array(counts_of_system) for counts_of_system in counts)
    pool, total = (
        np.concatenate([baseline, system]),
        sum(counts_of_system.sum(axis=(0, 1)) for counts_of_system in (system, baseline)),
    )
    hands = list(itertools.combinations(range(5), 3))
    dealt = np.array([pool[list(a), 0].sum(axis=0) + pool[list(b), 1].sum(axis=0) for a in hands for b in hands])
    differences = np.abs(metric.scores(dealt) - metric.scores(total - dealt))
    observed = abs(metric.scores(baseline.sum(axis=(0, 1))) - metric.scores(system.sum(axis=(0, 1))))
    expected = (differences >= observed - 1e-12).mean()
    result = approximate_randomization(*counts, metric.scores, 20_000)
    assert 0.05 < expected < 0.95 and result == pytest.approx(expected, abs=0.02)


def test_differences_that_only_rounding_tells_apart_are_equal():
    """With three references, TER divides by thirds of words. One sentence differs, so all deals differ as much."""
    references = texts(np.random.default_rng(2), 180, 0)
    metric = CorpusMetric("ter", [references[:60], references[60:120], references[120:]])
    baseline = texts(np.random.default_rng(3), 60, 0)
    counts = [[metric.corpus_counts(text)] for text in ([*baseline[:-1], "a better one"], baseline)]
    assert approximate_randomization(*counts, metric.scores, 500) == 1


def test_more_runs_give_a_lower_p_value(systems):
    metric, _, base, better = systems
    counts = [[metric.corpus_counts(text) for text in runs] for runs in (better, base)]
    p_of_single_runs = approximate_randomization(counts[0][:1], counts[1][:1], metric.scores, 500)
    assert approximate_randomization(*counts, metric.scores, 500) < p_of_single_runs


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomization])
def test_runs_of_other_sentences_are_refused(test):
    counts = np.ones((4, 10))
    with pytest.raises(ValueError, match="found runs of 3 and of 4 sentences, expected the same sentences"):
        test([counts], [counts[:3]], lambda sums: sums[..., 0])
