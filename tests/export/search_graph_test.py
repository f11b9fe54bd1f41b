"""The search inside a graph finds what the search in Python finds, with every sampler and option."""

import dataclasses

import keras
import numpy as np
import pytest
from fewest_words_sampler import FewestWordsSampler
from table_model import TableModel, random_sources
from toy_contract import window_model

from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, Generator, GreedySampler, RandomSampler, registered_samplers
from keras_encdec.decoding.search_batches import target_limit

tf = pytest.importorskip("tensorflow")
if keras.backend.backend() != "tensorflow":
    pytest.skip("graphs are TensorFlow's", allow_module_level=True)
from keras_encdec.export import search_graph  # noqa: E402
from keras_encdec.export.search_graph import search_in_graph, target_limits  # noqa: E402

DRAWS = 1 << 24
SAMPLERS = [
    GreedySampler(),
    GreedySampler(suppress_unknown=True),
    BeamSampler(1),
    BeamSampler(5, num_best=5),
    BeamSampler(6, num_best=2, length_penalty=0.9),
    BeamSampler(4, num_best=3, suppress_unknown=True),
    BeamSampler(40, num_best=40),
    RandomSampler(1),
    RandomSampler(3, temperature=0.5, suppress_unknown=True),
    RandomSampler(2, top_k=3),
    RandomSampler(1, top_p=0.7),
    FewestWordsSampler(3),
]


@dataclasses.dataclass(frozen=True)
class ServedDraws(RandomSampler):
    """Draws in Python what a graph draws with the number of the source as its seed."""

    def draws(self, number, steps):
        keys = [[f"{number} {t}" + f" {row}" * (row > 0) for row in range(self.num_samples)] for t in range(steps)]
        return (tf.cast(tf.strings.to_hash_bucket_fast(keys, DRAWS), tf.float32) / DRAWS).numpy()


def in_graph(model, sources, sampler, **inputs):
    """Ids, ln p and scores of a search, traced without the number of sources."""

    def searched(ids, lengths, **inputs):
        return search_in_graph(model.decoder, model.encode(ids), lengths, target_limits(lengths), sampler, inputs)

    lengths = tf.constant([len(source) for source in sources], tf.int32, (len(sources),))
    arguments = {"ids": tf.constant(pad(sources)), "lengths": lengths, **inputs}
    specs = {name: tf.TensorSpec([None] * len(each.shape), each.dtype, name) for name, each in arguments.items()}
    function = tf.function(searched, autograph=False).get_concrete_function(**specs)
    return [tensor.numpy() for tensor in function(**arguments)]


@pytest.fixture(autouse=True)
def few_shapes(monkeypatch):
    """Makes the graph search in several parts."""
    monkeypatch.setattr(search_graph, "MAX_ROWS", 64)


def links_of(attention):
    """The position s of the word attended to most; -1 - s if the last column, the end of the source, has more."""
    words = attention[:, :-1].argmax(axis=1) if attention.shape[1] > 1 else np.zeros(len(attention), int)
    return np.where(attention.argmax(axis=1) == attention.shape[1] - 1, -1 - words, words)


def check_equal(model, sources, sampler):
    inputs = {"seed": tf.range(len(sources), dtype=tf.int64)} if sampler.needs_draws else {}
    in_python = ServedDraws(**sampler.to_dict()) if sampler.needs_draws else sampler
    ids, log_probs, scores, links = in_graph(model, sources, sampler, **inputs)
    assert ids.shape[:2] == log_probs.shape == scores.shape == (len(sources), sampler.results_per_source)
    attends = model.decoder.has_attention
    for i, expected in enumerate(Generator(model).generate(sources, in_python, with_attention=attends)):
        targets = [tuple(row[row > 0].tolist()) for row in ids[i]]
        assert targets == [each.ids for each in expected] + [()] * (len(targets) - len(expected))
        np.testing.assert_allclose(log_probs[i, : len(expected)], [each.log_prob for each in expected], atol=1e-4)
        np.testing.assert_allclose(scores[i, : len(expected)], [each.score for each in expected], atol=1e-4)
        for row, each in zip(links[i], expected, strict=False):
            link = links_of(each.attention) if attends else 0
            np.testing.assert_array_equal(row[: len(each.ids)], link)
        assert (log_probs[i, len(expected) :] == tf.float32.min).all() and np.isfinite(scores).all()


def test_every_registered_sampler_is_tested():
    assert {type(sampler) for sampler in SAMPLERS} > {each.sampler_class for each in registered_samplers().values()}


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_the_graph_finds_the_same_targets_as_the_search_in_python(sampler):
    check_equal(TableModel(), random_sources(80), sampler)


@pytest.mark.parametrize(
    "sampler", [BeamSampler(4, num_best=3, length_penalty=0.5, coverage_penalty=0.4), RandomSampler(2)], ids=str
)
def test_the_search_handles_a_memory_with_a_time_axis_and_an_integer_state(sampler):
    check_equal(window_model(), random_sources(40, 6), sampler)


def test_the_coverage_penalty_needs_attention():
    with pytest.raises(ValueError, match="coverage_penalty with a model that has no attention"):
        in_graph(TableModel(), random_sources(2), BeamSampler(3, coverage_penalty=0.2))


def test_a_source_may_have_its_own_temperature():
    model, sources = TableModel(), random_sources(40)
    seeds = tf.range(40, dtype=tf.int64)
    temperatures = tf.where(seeds % 2 == 0, 0.3, 2.0)
    ids, *_ = in_graph(model, sources, RandomSampler(1), seed=seeds, temperature=temperatures)
    cold, hot = (Generator(model).generate(sources, ServedDraws(1, temperature=value)) for value in (0.3, 2.0))
    for i, rows in enumerate(ids):
        assert tuple(rows[0][rows[0] > 0].tolist()) == (hot if i % 2 else cold)[i][0].ids


def test_an_empty_batch_gets_no_targets():
    ids, log_probs, scores, links = in_graph(TableModel(), [], BeamSampler(3, num_best=2))
    assert ids.shape == (0, 2, 1) and log_probs.shape == scores.shape == (0, 2)


def test_length_limits_equal_those_of_the_search_in_python():
    lengths = list(range(1, 60))
    assert target_limits(tf.constant(lengths)).numpy().tolist() == [target_limit(length - 1) for length in lengths]
