"""Scores of pairs with rare words, by the scorer with shared prefixes."""

import hybrid_oracle
import numpy as np
import pytest
from hybrid_toys import PAIRS, hybrid, ids_of, log_probs

from keras_encdec.models.symbols import to_symbols
from keras_encdec.scoring import Scorer
from keras_encdec.scoring.scorer import PairSpellings

# Several targets of a source share prefixes that end in a rare word, and repeat rare words.
SHARED = [
    *PAIRS,
    (PAIRS[0][0], [3, [4, 3, 3, 1], 4]),
    (PAIRS[0][0], [3, [5], 4]),
    (PAIRS[0][0], [3, [4, 3, 3, 1], [5], 4]),
]


@pytest.mark.parametrize("path", [{}, {"character_path": "same", "character_units": 4}], ids=["separate", "same"])
def test_the_scorer_gives_the_oracles_scores(path, uncompiled):
    model = hybrid(**path)
    (sources, targets), tables = ids_of(SHARED)
    pairs, spellings = list(zip(sources, targets, strict=True)), PairSpellings(*tables)
    scorer = Scorer(model)
    weights = {name: array.astype("float64") for name, array in to_symbols(model).items()}
    expected = [hybrid_oracle.log_prob(weights, *pair) for pair in SHARED]
    np.testing.assert_allclose(scorer.score(pairs, spellings), expected, atol=1e-3)
    np.testing.assert_allclose(log_probs(model, SHARED), expected, atol=1e-3)
    tokens, attention = scorer.token_scores_with_attention(pairs, spellings)
    assert [len(row) for row in tokens] == [len(target) for target in targets]
    np.testing.assert_allclose([row.sum() for row in tokens], expected, atol=1e-3)
    assert attention[0].shape == (len(targets[0]), len(sources[0]))
