"""The scorer of the recurrent translation models against the model."""

import numpy as np
import pytest
from keras import ops
from recurrent_toys import toy

from keras_encdec.data import pad
from keras_encdec.scoring import batch_scorer
from keras_encdec.scoring.batch_scorer import BatchScorer


def random_pairs(number, longest, seed=0):
    random = np.random.default_rng(seed)

    def phrase(words):
        return (*random.integers(3, 3 + words, random.integers(0, longest)).tolist(), 2)

    return [(phrase(6), phrase(7)) for _ in range(number)]


@pytest.fixture(scope="module", params=["states", "context"])
def model(request):
    return toy(cell="lstm", condition=request.param)


def test_scores_are_the_models_whatever_they_are_scored_with(model, monkeypatch):
    monkeypatch.setattr(batch_scorer, "TOKENS", 64)
    monkeypatch.setattr(batch_scorer, "SOURCES", 7)
    pairs = random_pairs(40, 11)
    pairs += pairs[:5]
    scorer = BatchScorer(model)
    scores, tokens = scorer.score(pairs), scorer.token_scores(pairs)
    source, target = (pad(side) for side in zip(*pairs, strict=True))
    expected = ops.convert_to_numpy(model.token_log_probs(source, target))
    for i, (_, ids) in enumerate(pairs):
        np.testing.assert_allclose(tokens[i], expected[i, : len(ids)], atol=1e-5)
        assert scores[i] == pytest.approx(tokens[i].sum()) and tokens[i].dtype == np.float64
    assert scorer.score(pairs[7:8])[0] == pytest.approx(scores[7], abs=1e-5)
    assert scorer.score([]).tolist() == []


def test_equal_sources_are_encoded_once(model, monkeypatch):
    monkeypatch.setattr(batch_scorer, "TOKENS", 8)  # a row a batch
    scorer = BatchScorer(model)
    encode, encoded = scorer._encode, []
    scorer._encode = lambda ids: encoded.append(ids.tolist()) or encode(ids)
    pairs = [((3, 4, 2), (5, 2)), ((3, 2), (5, 2)), ((3, 4, 2), (6, 7, 2)), ((3, 4, 2), (5, 2))]
    scorer.score(pairs)
    assert sorted(encoded) == [[[3, 2] + [0] * 6], [[3, 4, 2] + [0] * 5]]


def test_a_closed_scorer_scores_no_more(model):
    scorer = BatchScorer(model)
    scorer.close()
    with pytest.raises(RuntimeError, match="closed"):
        scorer.score(random_pairs(3, 5))
