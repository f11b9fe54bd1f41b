"""The step of each sampler on made-up log-probabilities, and a sampler that only the tests have."""

import numpy as np
import pytest
from fewest_words_sampler import FewestWordsSampler
from keras import ops
from table_model import TableModel, random_sources

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import (
    BeamSampler,
    Generator,
    GreedySampler,
    RandomSampler,
    Sampler,
    register_sampler,
    registered_samplers,
    sampler_registry,
)
from keras_encdec.text import END, PADDING, UNKNOWN

SAMPLERS = [
    GreedySampler(),
    BeamSampler(3),
    BeamSampler(4, num_best=3, length_penalty=0.7),
    RandomSampler(3, temperature=2.0),
    RandomSampler(2, top_k=4, top_p=0.8),
    FewestWordsSampler(),
]


def random_log_probs(rows, vocabulary=8, seed=0):
    logits = np.random.default_rng(seed).normal(size=(rows, vocabulary)).astype("float32")
    return ops.log_softmax(ops.convert_to_tensor(logits))


def steps(sampler, limits, number):
    """Choices and searches of a number of steps on random log-probabilities, as arrays."""
    random, search = np.random.default_rng(1), sampler.initial(limits)
    rows = sampler.rows_per_source
    for t in range(number):
        draws = random.random((len(limits), rows)).astype("float32") if sampler.needs_draws else None
        log_probs = random_log_probs(len(limits) * rows, seed=t)
        choice, search = sampler.step(log_probs, search, draws)
        choice = {name: ops.convert_to_numpy(value) for name, value in choice._asdict().items() if value is not None}
        yield ops.convert_to_numpy(log_probs), choice, {name: ops.convert_to_numpy(v) for name, v in search.items()}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_step_keeps_the_shapes_of_the_search_and_makes_a_valid_choice(sampler):
    limits = [5, 1, 3, 30]
    before = {name: tuple(value.shape) for name, value in sampler.initial(limits).items()}
    rows, results = sampler.rows_per_source, sampler.results_per_source
    over = np.zeros(4, bool)
    for t, (log_probs, choice, search) in enumerate(steps(sampler, limits, 6), start=1):
        assert {name: tuple(value.shape) for name, value in search.items()} == before
        assert all(len(value) == 4 for value in search.values()), "one row a source"
        assert choice["words"].shape == choice["log_probs"].shape == choice["end_log_probs"].shape == (4, rows)
        assert choice["kept"].shape == (4, results) and (choice["kept"] < results + rows).all()
        assert choice["words"].min() >= PADDING and choice["words"].max() < 8
        parents = choice.get("parents", np.broadcast_to(np.arange(rows), (4, rows)))
        origin = (np.arange(4)[:, None] * rows + parents).ravel()
        going = choice["words"].ravel() != PADDING
        expected = log_probs[origin, choice["words"].ravel()]
        going &= np.isfinite(expected)
        np.testing.assert_allclose(choice["log_probs"].ravel()[going], expected[going])
        np.testing.assert_allclose(choice["end_log_probs"].ravel(), log_probs[:, END])
        over |= ~search["searching"]
        assert (~search["searching"] == over).all(), "a search that is over stays so"
        assert over[np.array(limits) <= t].all(), "at its limit every search is over"


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_every_source_gets_targets_within_its_limit_that_have_the_models_score(sampler):
    model, sources = TableModel(), random_sources(30)
    for source, hypotheses in zip(sources, Generator(model).generate(sources, sampler), strict=True):
        assert 1 <= len(hypotheses) <= sampler.results_per_source
        for hypothesis in hypotheses:
            limit = max(10, int(np.ceil(1.5 * (len(source) - 1)))) + 1 if len(source) > 1 else 1
            assert len(hypothesis.ids) <= limit and hypothesis.ids.index(END) == len(hypothesis.ids) - 1
            assert PADDING not in hypothesis.ids
            assert hypothesis.log_prob == pytest.approx(model.log_prob(source, hypothesis.ids), abs=1e-4)


@pytest.mark.parametrize(
    "sampler",
    [GreedySampler(True), BeamSampler(3, suppress_unknown=True), RandomSampler(9, suppress_unknown=True)],
    ids=str,
)
def test_the_unknown_word_can_be_suppressed(sampler):
    model, sources = TableModel(target_words=3), random_sources(20)
    without = Generator(model).generate(sources, sampler)
    assert not any(UNKNOWN in each.ids for hypotheses in without for each in hypotheses)
    with_it = Generator(model).generate(sources, sampler.replace(suppress_unknown=False))
    assert any(UNKNOWN in each.ids for hypotheses in with_it for each in hypotheses)


def test_a_row_grows_until_it_ends_and_is_then_kept():
    log_probs = np.log([[0.1, 0.1, 0.2, 0.6], [0.1, 0.1, 0.5, 0.3], [0.1, 0.1, 0.2, 0.6]]).astype("float32")
    sampler = GreedySampler()
    choice, search = sampler.step(ops.convert_to_tensor(log_probs), sampler.initial([5, 5, 1]))
    assert ops.convert_to_numpy(choice.words)[:, 0].tolist() == [3, END, END]
    assert ops.convert_to_numpy(choice.kept)[:, 0].tolist() == [0, 1, 1]
    assert ops.convert_to_numpy(search["searching"]).tolist() == [True, False, False]
    choice, search = sampler.step(ops.convert_to_tensor(log_probs[[1, 0, 0]]), search)
    assert ops.convert_to_numpy(choice.words)[:, 0].tolist() == [END, PADDING, PADDING]
    assert ops.convert_to_numpy(choice.kept)[:, 0].tolist() == [1, 0, 0]


def test_a_sampler_defines_how_it_chooses():
    with pytest.raises(NotImplementedError, match="found Sampler without choose, expected a class that defines it"):
        Sampler().choose(None, {})


def test_a_registered_sampler_generates_by_its_name():
    register_sampler("fewest", FewestWordsSampler)
    try:
        entry = registered_samplers()["fewest"]
        assert (entry.signature, entry.inputs, entry.single) == ("fewest", {}, False)
        assert entry.served_sampler(num_ranks=3) == FewestWordsSampler(3)
        model, sources = TableModel(), random_sources(5)
        by_name = Generator(model).generate(sources, "fewest")
        assert by_name == Generator(model).generate(sources, FewestWordsSampler())
        register_sampler("fewest", FewestWordsSampler)  # as a cell of a notebook that runs again
        with pytest.raises(ValueError, match="'fewest' registered already .*FewestWordsSampler.*, expected a new name"):
            register_sampler("fewest", GreedySampler)
        with pytest.raises(ValueError, match="another name and signature"):
            register_sampler("mine", FewestWordsSampler, signature="generate")
    finally:
        sampler_registry.SAMPLERS.unregister("fewest")
    assert [*registered_samplers()] == ["beam", "greedy", "sample"]
    with pytest.raises(ValueError, match=r"inputs \[\] of the sampler 'draws', expected .seed. among"):
        register_sampler("draws", RandomSampler)
    with pytest.raises(ValueError, match=r"found the sampler GreedySampler\(.*\), expected a subclass of Sampler"):
        register_sampler("greediest", GreedySampler())


def test_the_samplers_of_the_package_are_served():
    samplers = registered_samplers()
    assert {name: entry.signature for name, entry in samplers.items()} == {
        "beam": "generate",
        "greedy": "generate_greedy",
        "sample": "sample",
    }
    assert samplers["beam"].served_sampler() == BeamSampler(5, num_best=5)
    assert samplers["sample"].served_sampler(top_k=3) == RandomSampler(1, top_k=3)
    assert [entry.single for entry in samplers.values()] == [False, True, True]


def test_options_are_declared_and_checked():
    assert [option.name for option in BeamSampler.hyperparameters()] == [
        "num_beams",
        "num_best",
        "length_penalty",
        "coverage_penalty",
        "suppress_unknown",
    ]
    with pytest.raises(ConfigurationError, match="num_best=3, expected 1 to num_beams, 2"):
        BeamSampler(2, num_best=3)
    with pytest.raises(ConfigurationError, match="num_ranks=0"):
        FewestWordsSampler(0)
