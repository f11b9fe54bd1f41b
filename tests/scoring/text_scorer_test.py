"""Pairs of words scored by a model directory: only what is requested is computed."""

import contextlib
import pickle

import numpy as np
import pytest
from toy_models import save_model

from keras_encdec.model_directory import ModelDirectory
from keras_encdec.scoring import DryScorer, TextScorer
from keras_encdec.text.lexical_shortlist import LexicalShortlist

WORDS = [f"w{i}" for i in range(9)]
PAIRS = [(["w1", "new", "w3"], ["w4"]), (["w5"], ["w6", "new", "new"]), ([], [])]
UNKNOWN = [1, 0, 0], [0, 2, 0]


@pytest.fixture(scope="module", params=[False, True], ids=["forward", "reverse"])
def model_dir(request, tmp_path_factory):
    """Directory of a model with attention."""
    path = tmp_path_factory.mktemp("model")
    return save_model(path, WORDS, WORDS, reverse=request.param, cell="gru", layers=1, attention="global")


@pytest.mark.usefixtures("uncompiled")
def test_requested_scores_are_computed_together(model_dir):
    scorer = TextScorer(model_dir)
    scores = scorer.score_pairs(PAIRS)
    assert not any((scores.token_log_probs, scores.unknown_count, scores.source_unknown_count, scores.attention))
    np.testing.assert_array_equal(scores.log_prob, scorer.score(PAIRS))
    every = scorer.score_pairs(PAIRS, token_log_probs=True, unknown_count=True, attention=True)
    np.testing.assert_allclose(every.log_prob, scores.log_prob, atol=1e-5)
    assert (every.source_unknown_count, every.unknown_count) == UNKNOWN
    for name, method in {"token_log_probs": scorer.token_scores, "attention": scorer.attention}.items():
        for row, expected in zip(getattr(every, name), method(PAIRS), strict=True):
            np.testing.assert_allclose(row, expected, atol=1e-5)
    assert not scorer.score_pairs(PAIRS, attention=True).token_log_probs
    assert len(scorer.score_pairs([], token_log_probs=True, unknown_count=True).log_prob) == 0


@pytest.mark.usefixtures("uncompiled")
def test_a_dry_run_gives_scores_of_the_same_shapes(model_dir):
    asked = {"token_log_probs": True, "unknown_count": True, "attention": True}
    expected = TextScorer(model_dir).score_pairs(PAIRS, **asked)
    scorer = DryScorer(model_dir)
    assert scorer.directory.model is None
    scores = scorer.score_pairs(PAIRS, **asked)
    assert scores.log_prob.tolist() == [0.0, 0.0, 0.0]
    assert (scores.source_unknown_count, scores.unknown_count) == UNKNOWN
    for name in ("token_log_probs", "attention"):
        assert [row.shape for row in getattr(scores, name)] == [row.shape for row in getattr(expected, name)]
        assert not any(row.any() for row in getattr(scores, name))
    nothing = scorer.score_pairs(PAIRS)
    assert not any((nothing.token_log_probs, nothing.unknown_count, nothing.attention))


@pytest.mark.usefixtures("uncompiled")
def test_a_pickled_scorer_gives_the_same_scores(model_dir):
    scorer = TextScorer(model_dir, dtype="float32")
    expected = scorer.score(PAIRS)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(scorer)).score(PAIRS), expected, atol=1e-5)


@pytest.mark.usefixtures("uncompiled")
def test_a_model_is_opened_from_a_path_or_a_directory_and_a_scorer_that_is_lent_stays_open(model_dir):
    directory = ModelDirectory.load(model_dir)
    assert ModelDirectory.open(directory) is directory
    own = TextScorer(directory)
    assert ModelDirectory.open(own) is directory
    expected = own.score(PAIRS)
    for model in (model_dir, directory, own):
        with contextlib.closing(TextScorer.open(model)) as scorer:
            np.testing.assert_allclose(scorer.score(PAIRS), expected, atol=1e-5)
        if model is not own:
            with pytest.raises(RuntimeError):
                scorer.score(PAIRS)
    np.testing.assert_allclose(own.score(PAIRS), expected, atol=1e-5)


@pytest.mark.parametrize("pairs", [[("a", "b", "c")], ("ab", "cd"), [("a", b"b")], [(["a"], ["b"])], [None]])
def test_texts_that_are_not_pairs_are_refused(model_dir, pairs):
    for scorer in (TextScorer(model_dir), DryScorer(model_dir)):
        with pytest.raises(ValueError, match=r"in place of a pair, expected \(source text, target text\)"):
            scorer.all_words(pairs)


@pytest.mark.parametrize("pair", ["open the file", b"ab", (["w1"], ["w1"], ["w1"]), ["w1"], None])
def test_elements_that_are_not_pairs_of_words_are_refused(model_dir, pair):
    for scorer in (TextScorer(model_dir), DryScorer(model_dir)):
        with pytest.raises(ValueError, match=r"in place of a pair, expected \(source words, target words\)"):
            scorer.score_pairs([(["w1"], ["w1"]), pair])


@pytest.mark.parametrize("side", [b"w1 w2", ["w1", b"w1"], ["w1", None], np.array([3, 4, 2]), {"w1"}])
def test_sides_that_are_not_words_are_refused(model_dir, side):
    scorer, words = DryScorer(model_dir), ["w1"]
    for pair in ((side, words), (words, side)):
        with pytest.raises(ValueError, match="in place of a side of a pair, expected a list of words, each a str"):
            scorer.score_pairs([(words, words), pair])
    scorer.score_pairs([(np.array(words), ()), (tuple(words), np.array([], str))])


@pytest.mark.parametrize("model", [None, 5, b"model"])
def test_a_model_that_is_not_a_path_is_refused(model):
    with pytest.raises(ValueError, match=f"found the model {model!r}, expected the path of a model directory"):
        TextScorer(model)


@pytest.mark.usefixtures("uncompiled")
def test_the_words_of_a_lexical_shortlist_share_the_probabilities(model_dir):
    full = TextScorer(model_dir)
    directory = full.directory
    nothing = LexicalShortlist({}, directory.target_vocabulary, frequent_words=0)
    translations = {word: directory.target_vocabulary.words for word in directory.source_vocabulary.words}
    everything = LexicalShortlist(translations, directory.target_vocabulary)
    some = [pair for pair in PAIRS if set(directory.reordered(pair)[0]) & set(WORDS)]
    found = TextScorer(directory, lexical_shortlist=everything).score(some)
    np.testing.assert_allclose(found, full.score(some), atol=1e-5)
    few = TextScorer(directory, lexical_shortlist=nothing)
    assert (few.score(PAIRS) > full.score(PAIRS) + 0.1).all()
    tokens = few.score_pairs(PAIRS, token_log_probs=True, attention=True)
    np.testing.assert_allclose([row.sum() for row in tokens.token_log_probs], few.score(PAIRS), atol=1e-5)
    assert [len(row) for row in tokens.attention] == [len(row) for row in tokens.token_log_probs]
