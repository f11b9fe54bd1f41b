"""Searches among candidate words."""

import keras
import numpy as np
import pytest
from toy_search import toy

from keras_encdec.decoding import BeamSampler, Generator, GreedySampler, RandomSampler, search_batches
from keras_encdec.text.vocabulary import END

SOURCES = [[3, 4, 2], [5, 2], [6, 3, 7, 4, 2], [2], [8, 8, 2]]
WORDS = 24
SAMPLERS = [
    GreedySampler(),
    BeamSampler(2, num_best=2),  # sources share their words
    BeamSampler(5, num_best=3, length_penalty=0.6),  # each source has its own
    BeamSampler(9, num_best=9, suppress_unknown=True),  # more beams than some sources have words
    RandomSampler(3, seed=5),
]


@pytest.fixture(scope="module")
def model():
    return toy(target_words=WORDS, seed=3)[0]


@pytest.fixture(scope="module")
def lists():
    """Candidates of each source; the last has all words."""
    random = np.random.default_rng(7)
    some = [random.choice(np.arange(3, WORDS + 3), size, replace=False) for size in (9, 4, 14, 6)]
    return [*some, np.arange(3, WORDS + 3)]


@pytest.fixture(scope="module")
def biased(model, lists):
    """For each list, a model to which all other words are impossible."""
    return [with_bias(model, words) for words in lists]


def found(model, sampler, **arguments):
    return Generator(model).generate(SOURCES, sampler, max_length=6, **arguments)


def with_bias(model, words):
    """The model, whose output bias makes all other words impossible."""
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    _, bias = copy.decoder.output_weights
    allowed = np.isin(np.arange(WORDS + 3), [0, 1, 2, *words])
    bias.assign(np.where(allowed, keras.ops.convert_to_numpy(bias), -1e9))
    return copy


def assert_alike(hypotheses, expected, atol=1e-5):
    assert [hypothesis.ids for hypothesis in hypotheses] == [hypothesis.ids for hypothesis in expected]
    for name in ("log_prob", "score"):
        values = ([getattr(hypothesis, name) for hypothesis in each] for each in (hypotheses, expected))
        np.testing.assert_allclose(*values, atol=atol)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("sampler", SAMPLERS[:-1], ids=str)
def test_words_that_are_not_candidates_are_impossible(model, biased, lists, sampler):
    together = found(model, sampler, candidates=lists)
    for index, source in enumerate(SOURCES):
        [alone] = Generator(biased[index]).generate([source], sampler, max_length=6)
        # A model that makes words impossible ranks impossible continuations last, instead of leaving them out.
        assert_alike(together[index], [hypothesis for hypothesis in alone if hypothesis.log_prob > -1e8])


@pytest.mark.usefixtures("uncompiled")
def test_all_words_as_candidates_change_nothing(model):
    everything = [np.arange(3, WORDS + 3)] * len(SOURCES)
    for sampler in SAMPLERS[1:]:
        for hypotheses, expected in zip(
            found(model, sampler, candidates=everything), found(model, sampler), strict=True
        ):
            assert_alike(hypotheses, expected)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_source_gets_the_same_targets_alone_and_among_others(model, lists, sampler):
    generator = Generator(model)
    together = generator.generate(SOURCES, sampler, max_length=6, candidates=lists)
    for index, (source, words) in enumerate(zip(SOURCES, lists, strict=True)):
        [alone] = generator.generate([source], sampler, max_length=6, candidates=[words], first=index)
        assert_alike(together[index], alone)
        assert {i for hypothesis in alone for i in hypothesis.ids} <= {1, END, *words.tolist()}


@pytest.mark.parametrize("average", [None, "arithmetic", "geometric"])
def test_full_scores_are_those_of_all_words(model, lists, average, request):
    if average is not None:
        request.getfixturevalue("uncompiled")  # XLA compiles only the searches of a single model
    models = model if average is None else [model, toy(target_words=WORDS, seed=4)[0]]
    generator = Generator(models, average=average or "arithmetic")
    sampler = BeamSampler(5, num_best=3, length_penalty=0.6)
    short = generator.generate(SOURCES, sampler, max_length=6, candidates=lists)
    full = generator.generate(SOURCES, sampler, max_length=6, candidates=lists, full_scores=True)
    everything = [np.arange(3, WORDS + 3)] * len(SOURCES)
    for index, (before, after) in enumerate(zip(short, full, strict=True)):
        assert {hypothesis.ids for hypothesis in before} == {hypothesis.ids for hypothesis in after}
        scores = [hypothesis.score for hypothesis in after]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in after:
            np.testing.assert_allclose(
                hypothesis.score, hypothesis.log_prob / ((5 + len(hypothesis.ids)) / 6) ** 0.6, rtol=1e-5
            )
            if average is None:
                score = model.score([SOURCES[index]], [list(hypothesis.ids)])
                np.testing.assert_allclose(hypothesis.log_prob, keras.ops.convert_to_numpy(score)[0], atol=1e-5)
    # Rescoring what a search among all words found changes nothing.
    plain = generator.generate(SOURCES, sampler, max_length=6)
    rescored = generator.generate(SOURCES, sampler, max_length=6, candidates=everything, full_scores=True)
    for hypotheses, expected in zip(rescored, plain, strict=True):
        assert_alike(hypotheses, expected)


@pytest.mark.usefixtures("uncompiled")
def test_samples_keep_their_order_when_they_are_scored_with_all_words(model, lists):
    sampler = RandomSampler(6, seed=5)
    drawn, scored = (found(model, sampler, candidates=lists, full_scores=full) for full in (False, True))
    assert [[each.ids for each in some] for some in scored] == [[each.ids for each in some] for some in drawn]
    assert any(some != sorted(some, key=lambda each: -each.score) for some in scored)


@pytest.mark.usefixtures("uncompiled")
def test_an_ensemble_averages_over_the_candidates(model, biased, lists):
    other = toy(target_words=WORDS, seed=4)[0]
    pairs = {index: [biased[index], with_bias(other, lists[index])] for index in (0, 2, 4)}
    sampler = BeamSampler(4, num_best=2)
    for average in ("arithmetic", "geometric"):
        ensemble = Generator([model, other], average=average)
        together = ensemble.generate(SOURCES, sampler, max_length=6, candidates=lists)
        for index, pair in pairs.items():
            [alone] = Generator(pair, average=average).generate([SOURCES[index]], sampler, max_length=6)
            assert_alike(together[index], alone)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(("sharing", "whole_share"), [(4, 2.0), (7, 2.0), (4, 0.5)])
def test_sources_keep_their_candidates_when_a_batch_shrinks(model, monkeypatch, sharing, whole_share):
    random = np.random.default_rng(0)
    sources = [[*random.integers(3, 9, random.integers(1, 20)).tolist(), 2] for _ in range(30)]
    lists = [random.choice(np.arange(3, WORDS + 3), 8, replace=False) for _ in sources]
    monkeypatch.setattr("keras_encdec.decoding.ensemble.MIN_ROWS", 1)
    monkeypatch.setattr("keras_encdec.backend.compiled_call.COMPILING", 0)
    monkeypatch.setattr(search_batches, "SHARING_SOURCES", sharing)
    monkeypatch.setattr(search_batches, "WHOLE_SHARE", whole_share)
    for sampler in (GreedySampler(), BeamSampler(4)):
        generator = Generator(model)
        together = generator.generate(sources, sampler, candidates=lists)
        for index in (0, 11, 29):
            [alone] = generator.generate([sources[index]], sampler, candidates=[lists[index]])
            assert_alike(together[index], alone)


def test_candidates_must_be_ids_of_the_model(model):
    for wrong in ([WORDS + 3], [-1]):
        with pytest.raises(ValueError, match=f"expected ids from 0 to {WORDS + 2}"):
            Generator(model).generate([[3, 2]], candidates=[wrong])
    with pytest.raises(ValueError, match="found 2 lists of candidates for 1 source"):
        Generator(model).generate([[3, 2]], candidates=[[3], [4]])


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_each_allowed_column_is_a_word_of_the_source(groups):
    random = np.random.default_rng(1)
    words = [search_batches.with_special_ids(random.integers(3, WORDS + 3, 5)) for _ in range(4)]
    batch = search_batches.batch_candidates(words, groups, lambda needed: needed + 2)
    assert len(batch.words) == groups and batch.words.shape[1] < 3 + 5 * 4 // groups + 3
    rows = np.repeat(batch.words, 4 // groups, axis=0)
    for row, allowed, own in zip(rows, batch.allowed, words, strict=True):
        assert row[allowed].tolist() == own.tolist()
        assert row[:3].tolist() == [0, 1, 2]


def test_each_group_that_shares_words_has_sources_of_all_lengths(monkeypatch):
    monkeypatch.setattr(search_batches, "SHARING_SOURCES", 6)
    sources = [[3] * length + [2] for length in np.random.default_rng(0).permutation(17)]
    batches = search_batches.SearchBatches(20, 1000)
    requests = batches.requests(sources, candidates=[[3 + index] for index in range(17)])
    [batch] = batches.batches(requests, GreedySampler())
    assert len(batch.candidates.words) == 3 and sorted(batch.indices, key=str) == [*sorted(range(17), key=str), None]
    for index, row, allowed in zip(batch.indices, batch.source, batch.candidates.allowed, strict=True):
        assert row[row > 0].tolist() == ([2] if index is None else sources[index])
        assert allowed.sum() == 3 + (index is not None)
    shortest = (np.reshape(batch.source, (3, 6, -1)) > 0).sum(axis=2).min(axis=1)
    assert shortest.max() <= 3


def test_sources_that_need_most_of_the_words_share_them_all(monkeypatch):
    monkeypatch.setattr(search_batches, "SHARING_SOURCES", 2)
    batches, random = search_batches.SearchBatches(20, 400), np.random.default_rng(0)
    for number, groups in ((20, 4), (150, 1), (250, 1)):
        lists = [random.choice(np.arange(3, 400), number, replace=False) for _ in range(8)]
        [batch] = batches.batches(batches.requests([[3, 2]] * 8, candidates=lists), GreedySampler())
        assert len(batch.candidates.words) == groups
        rows = np.repeat(batch.candidates.words, 8 // groups, axis=0)
        for index, row, allowed in zip(batch.indices, rows, batch.candidates.allowed, strict=True):
            assert row[allowed].tolist() == [0, 1, 2, *sorted(lists[index])]


@pytest.mark.parametrize(("on_cpu", "sizes"), [(True, [10, 10, 10]), (False, [30])])
def test_only_on_a_cpu_a_greedy_batch_has_fewer_sources_than_rows_fit(monkeypatch, on_cpu, sizes):
    monkeypatch.setattr(search_batches, "MAX_SOURCES", 12)
    monkeypatch.setattr(search_batches, "on_cpu", lambda: on_cpu)
    batches = search_batches.SearchBatches(20, WORDS + 3)
    requests = batches.requests([[3, 2]] * 30)
    assert [
        len(batch.indices) - batch.indices.count(None) for batch in batches.batches(requests, GreedySampler())
    ] == sizes


def test_the_longest_sources_are_searched_first(monkeypatch):
    monkeypatch.setattr(search_batches, "MAX_SOURCES", 4)
    batches = search_batches.SearchBatches(20, WORDS + 3)
    requests = batches.requests([[3] * length + [2] for length in (1, 30, 9, 2, 31, 10, 3, 29, 8)])
    widths = [batch.source.shape[1] for batch in batches.batches(requests, GreedySampler())]
    assert len(widths) == 3 and widths == sorted(widths, reverse=True) and widths[0] > widths[2]


def test_no_target_is_longer_than_the_factor_allows():
    for hundredths in range(1, 400):
        for words in (1, 7, 10, 30, 100):
            limit = search_batches.target_limit(words, hundredths / 100)
            assert limit == max(10, -(-hundredths * words // 100)) + 1, (hundredths, words)
