"""Scoring with a language model of limited context: the scores are the model's own."""

import keras
import numpy as np
import pytest
from layer_checks import numpy
from recurrent_toys import stirred

from keras_encdec.data import pad
from keras_encdec.models import FeedForwardLanguageModel
from keras_encdec.scoring import Scorer, ngram_scorer
from keras_encdec.scoring.ngram_scorer import DistinctNgrams, WordProductTables
from keras_encdec.scoring.pair_scorer import NgramCounts


@pytest.fixture(scope="module")
def model():
    return stirred(FeedForwardLanguageModel(6, ngram_order=3, embedding_dim=4, hidden_units=(6, 5)))


@pytest.fixture(params=[True, False], ids=["table", "no table"])
def with_table(request, monkeypatch):
    """Whether the products of words are computed first, in every call."""
    tables = []

    def recorded(self, contexts):
        found = contexts_and_table(self, contexts)
        tables.append(found[1] is not None)
        return found

    contexts_and_table = WordProductTables.contexts_and_table
    monkeypatch.setattr(ngram_scorer, "MIN_TABLE_ROWS", 2 if request.param else 1024)
    monkeypatch.setattr(WordProductTables, "contexts_and_table", recorded)
    yield request.param
    assert tables and set(tables) == {request.param}


def random_targets(number, longest=7):
    random = np.random.default_rng(0)
    return [(*random.integers(3, 9, random.integers(0, longest)).tolist(), 2) for _ in range(number)]


def pairs_of(targets):
    return [((2,), target) for target in targets]


@pytest.mark.usefixtures("uncompiled", "with_table")
@pytest.mark.parametrize("size, batches", [(1024, 16), (3, 4)], ids=["one group", "many groups"])
def test_scores_equal_the_models_and_each_ngram_is_computed_once(model, monkeypatch, size, batches):
    for name, value in (("MAX_BATCH", size), ("MIN_BATCH", size), ("BATCHES_PER_GROUP", batches)):
        monkeypatch.setattr(ngram_scorer, name, value)
    targets = random_targets(60)
    scorer = Scorer(model)
    tokens, scores = scorer.token_scores(pairs_of(targets)), scorer.score(pairs_of(targets))
    expected = numpy(model.token_log_probs(pad(targets)))
    assert expected.sum(axis=1).std() > 1, "a test of scores that hardly differ would show nothing"
    for target, found, score, row in zip(targets, tokens, scores, expected, strict=True):
        np.testing.assert_allclose(found, row[: len(target)], atol=1e-5)
        assert score == pytest.approx(found.sum()) and found.dtype == np.float64
    ngrams = [(0, 0, *target)[t : t + 3] for target in targets for t in range(len(target))]
    once = NgramCounts(len(ngrams), len(set(ngrams)), len({ngram[:-1] for ngram in ngrams}))
    assert scorer.ngram_counts == once + once and once.contexts < once.distinct < once.ngrams
    assert scorer.score([]).tolist() == []


@pytest.mark.usefixtures("with_table")
def test_compiled_scores_equal_the_models(model):
    targets = random_targets(60)
    np.testing.assert_allclose(Scorer(model).score(pairs_of(targets)), numpy(model.score(pad(targets))), atol=1e-5)


def test_a_table_has_the_products_of_the_words_of_contexts(model, monkeypatch):
    contexts = np.array([[0, 0], [0, 3], [3, 8]] * 10)
    unchanged, table = WordProductTables(model).contexts_and_table(contexts)
    assert unchanged is contexts and table is None, "few contexts are not worth a table"
    monkeypatch.setattr(ngram_scorer, "MIN_TABLE_ROWS", 2)
    rows, table = WordProductTables(model).contexts_and_table(contexts)
    # Three distinct ids, 0 included: the table has four rows for each of two positions.
    assert rows[:3].tolist() == [[0, 4], [0, 5], [1, 6]]
    products = numpy(model.decoder.word_products(np.array([0, 3, 8], np.int32)))
    np.testing.assert_allclose(numpy(table).reshape(2, 4, -1)[:, :3], products, atol=1e-6)
    # The vocabulary has nine ids: nine rows for each position, not sixteen.
    assert WordProductTables(model).contexts_and_table(np.arange(9).repeat(8).reshape(-1, 2))[1].shape == (18, 6)


def test_a_table_that_is_too_large_is_not_computed(model, monkeypatch):
    monkeypatch.setattr(ngram_scorer, "MIN_TABLE_ROWS", 2)
    contexts = np.array([[0, 0], [0, 3], [3, 8]] * 10)
    monkeypatch.setattr(ngram_scorer, "MAX_TABLE_BYTES", 2 * 4 * 6 * 4)
    assert WordProductTables(model).contexts_and_table(contexts)[1] is not None
    monkeypatch.setattr(ngram_scorer, "MAX_TABLE_BYTES", 2 * 4 * 6 * 4 - 1)
    assert WordProductTables(model).contexts_and_table(contexts)[1] is None


def test_low_precision_and_models_without_hidden_layers_use_no_table():
    sizes = {"ngram_order": 3, "embedding_dim": 4}
    assert FeedForwardLanguageModel(6, **sizes, hidden_units=(6,)).decoder.context_sum_width == 6
    assert FeedForwardLanguageModel(6, **sizes, hidden_units=(6,), dtype="bfloat16").decoder.context_sum_width is None
    assert FeedForwardLanguageModel(6, **sizes, hidden_units=()).decoder.context_sum_width is None


@pytest.mark.usefixtures("uncompiled", "with_table")
def test_large_logits_are_summed_after_their_maximum_is_subtracted(model):
    large = keras.models.clone_model(model)
    large.set_weights(model.get_weights())
    large.decoder.output_matrix.bias.assign([300.0] * 9)
    targets = random_targets(60)
    np.testing.assert_allclose(Scorer(large).score(pairs_of(targets)), numpy(large.score(pad(targets))), atol=1e-3)


def test_scores_do_not_depend_on_the_floatx_of_the_user(model):
    floatx, targets = keras.config.floatx(), random_targets(20)
    expected = Scorer(model).score(pairs_of(targets))
    keras.config.set_floatx("float16")
    try:
        scores = Scorer(model).score(pairs_of(targets))
    finally:
        keras.config.set_floatx(floatx)
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_ids_that_the_model_does_not_have_are_refused(model):
    with pytest.raises(ValueError, match=r"found the target \[3, 9, 2\], expected ids from 1 to 8 closed by the end"):
        Scorer(model).score(pairs_of([(3, 2), (3, 9, 2)]))


@pytest.mark.parametrize("largest", [2**62, 100], ids=["packed at once", "packed in steps"])
def test_distinct_ngrams_are_the_same_as_in_a_set_of_tuples(monkeypatch, largest):
    monkeypatch.setattr(ngram_scorer, "MAX_PACKED", largest)
    random = np.random.default_rng(0)
    rows = random.integers(1, 6, (50, 9)) * (np.arange(9) < random.integers(1, 10, (50, 1)))
    ngrams = DistinctNgrams(rows, 3)
    expected = set()
    for row, numbers in zip(rows.tolist(), ngrams.numbers, strict=True):
        before = [0, 0, 0, *row]
        for t, word in enumerate(row):
            if word:
                number = numbers[t]
                context = ngrams.contexts[ngrams.context_of_ngram[number]].tolist()
                assert (context, ngrams.words[number]) == (before[t : t + 3], word)
                expected.add((*context, word))
            else:
                assert numbers[t] == 0
    assert len(ngrams.words) == len(ngrams.context_of_ngram) == len(expected)
    assert len(ngrams.contexts) == len({ngram[:-1] for ngram in expected})
    assert (np.diff(ngrams.context_of_ngram) >= 0).all()
