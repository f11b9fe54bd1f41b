"""Tests of scoring many pairs with the recurrent models: the scores are those of the model itself."""

import keras
import numpy as np
import pytest
from keras import ops
from recurrent_toys import stirred, toy

from keras_encdec.data import pad
from keras_encdec.models import RecurrentLanguageModel
from keras_encdec.scoring import Scorer, scorer
from keras_encdec.scoring import source_encoder as batch_encoder
from keras_encdec.scoring.pair_groups import cut_into_groups

MODELS = {
    "lstm": {"cell": "lstm", "layers": 3},
    "summary": {"cell": "gru", "condition": "context", "bidirectional": "sum"},
    "attention": {"bidirectional": "concat", "attention": "local_m", "attention_window": 2},
    "reversed": {"cell": "rnn", "reverse_source": True},
}
# XLA takes long to compile each model, and compiles the same for JAX as for TensorFlow.
CHOSEN = {"torch": MODELS, "tensorflow": ["summary", "attention"], "jax": []}[keras.backend.backend()]


def random_pairs(number, longest, seed=0):
    random = np.random.default_rng(seed)

    def phrase(words):
        return (*random.integers(3, 3 + words, random.integers(0, longest)).tolist(), 2)

    return [(phrase(6), phrase(7)) for _ in range(number)]


@pytest.fixture(scope="module", params=CHOSEN)
def model(request):
    return toy(**MODELS[request.param])


def test_scores_are_the_models_whatever_they_are_scored_with(model, monkeypatch, request):
    if not model.decoder.has_attention:
        request.getfixturevalue("uncompiled")  # XLA compiles only the model with attention
    monkeypatch.setattr(batch_encoder, "TOKENS", 64)
    monkeypatch.setattr(batch_encoder, "REST_TOKENS", 16)
    monkeypatch.setattr(scorer, "SLOTS", 256)
    pairs, targets = random_pairs(20, 20), random_pairs(40, 5)
    pairs += [(source, target) for source, _ in pairs[:2] for _, target in targets] + pairs[:5]
    some = Scorer(model)
    scores, tokens = some.score(pairs), some.token_scores(pairs)
    source, target = (pad(side) for side in zip(*pairs, strict=True))
    expected = ops.convert_to_numpy(model.token_log_probs(source, target))
    assert expected.sum(axis=1).std() > 3, "a test of scores that hardly differ would show nothing"
    for i, (_, ids) in enumerate(pairs):
        np.testing.assert_allclose(tokens[i], expected[i, : len(ids)], atol=1e-5)
        assert scores[i] == pytest.approx(tokens[i].sum()) and tokens[i].dtype == np.float64
    assert some.score(pairs[7:8])[0] == pytest.approx(scores[7], abs=1e-5)
    assert some.score([]).tolist() == []


def test_a_language_model_scores_targets_alone():
    model = stirred(RecurrentLanguageModel(8, embedding_dim=4, units=6))
    targets = [target for _, target in random_pairs(50, 9)]
    found = Scorer(model).score([((2,), target) for target in targets])
    np.testing.assert_allclose(found, ops.convert_to_numpy(model.score(pad(targets))), atol=1e-5)


def test_equal_sources_are_encoded_once_and_equal_prefixes_decoded_once():
    sources, targets = pad([(3, 4, 2), (3, 2)]), pad([(5, 2), (5, 2), (5, 7, 2), (5, 2)])
    lengths = np.array([3, 2]), np.array([2, 2, 3, 2])
    [group] = cut_into_groups(sources, lengths[0], np.array([0, 1, 0, 0]), targets, lengths[1], lambda _: (64, 8))
    assert sorted(row.tolist() for row in group.sources) == [[3, 2, 0], [3, 4, 2]]
    previous, parents, _, batches = group.inputs
    # The prefixes are () and (5,) of each source, and (5, 7) of the first.
    assert np.count_nonzero(previous) == 3 and np.count_nonzero(parents >= 0) == 3 and batches == 3


@pytest.mark.usefixtures("uncompiled")
def test_scores_do_not_depend_on_how_much_memory_there_is(model, monkeypatch):
    pairs = random_pairs(30, 5)
    expected = Scorer(model).score(pairs)
    monkeypatch.setattr(scorer, "BYTES", 4096)
    np.testing.assert_allclose(Scorer(model).score(pairs), expected, atol=1e-5)


@pytest.mark.parametrize("compiles, sizes", [(True, [4, 4, 4]), (False, [10])])
def test_leftover_sources_are_encoded_together_if_no_shape_is_compiled(compiles, sizes, monkeypatch):
    monkeypatch.setattr(batch_encoder, "TOKENS", 1024)
    monkeypatch.setattr(batch_encoder, "REST_TOKENS", 32)
    monkeypatch.setattr(batch_encoder, "compiles_shapes", lambda: compiles)
    encoder = batch_encoder.BatchEncoder(toy(cell="rnn"))
    found, call = [], encoder._call
    encoder._call = lambda ids, *others: found.append(ids.shape[0]) or call(ids, *others)
    sources = np.tile(np.array([3, 4, 2], np.int32), (10, 1))
    state, _ = encoder.start(sources, np.full(10, 3), 16)
    assert found == sizes
    assert all((table[:10] == table[0]).all() and table[0].any() for table in state.values())
