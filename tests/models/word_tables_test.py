"""Tests of the tables of what a model computes from each word alone."""

import concurrent.futures
import threading

import keras
import numpy as np
import pytest
from keras import ops

from keras_encdec.decoding import BeamSampler, Generator
from keras_encdec.models import (
    RecurrentEncoderDecoder,
    RNNEncoderDecoder,
    recurrent_decoder,
    recurrent_encoder,
    word_tables,
)
from keras_encdec.models.word_tables import WordTableCache, looked_up, looking_up
from keras_encdec.scoring import Scorer

WORDS = 17
SIZES = {"units": 6, "embedding_dim": 5, "initial_scale": 0.8}
KINDS = {
    "one direction": {"layers": 2},
    "both directions": {"cell": "gru", "bidirectional": "concat", "attention": "global"},
    "reversed, input feeding": {"reverse_source": True, "attention": "local_p", "input_feeding": True},
    "characters": {"attention": "global", "characters": "both", "character_units": 4, "character_shortlist": 9},
}


@pytest.fixture
def sources() -> list[list[int]]:
    random = np.random.default_rng(1)
    return [[*random.integers(1, WORDS + 3, length).tolist(), 2] for length in (1, 4, 7, 9)]


def without_specials(ids: list[int]) -> list[int]:
    return [number if number not in (0, 2) else 5 for number in ids[:-1]] + [2]


@pytest.mark.parametrize("kind", KINDS)
def test_encoders_and_decoders_find_in_the_tables_what_they_would_compute(kind: str) -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES, **KINDS[kind])
    tables = WordTableCache([model]).tables([range(WORDS)])["0"]
    source = np.array([[5, 6, 1, 2], [7, 2, 0, 0]])
    computed = model.encode(source)
    with looking_up(model.encoder, tables["encoder"]):
        looked_up = model.encode(source)
    for name, tensor in computed.items():
        np.testing.assert_allclose(*map(ops.convert_to_numpy, (looked_up[name], tensor)), atol=1e-5, err_msg=name)
    state, memory = model.decoder.start(computed)
    previous = ops.array([0, 9])
    expected, _ = model.decoder.next_log_probs(previous, state, memory)
    with looking_up(model.decoder, tables["decoder"]):
        log_probs, _ = model.decoder.next_log_probs(previous, state, memory)
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (log_probs, expected)), atol=1e-5)


def test_the_tables_are_read() -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES)
    source = np.array([[5, 6, 2]])
    tables = WordTableCache([model]).tables([range(WORDS)])["0"]["encoder"]
    with looking_up(model.encoder, [ops.zeros_like(table) for table in tables]):
        changed = ops.convert_to_numpy(model.encode(source)["hidden_1"])
    assert np.abs(changed - ops.convert_to_numpy(model.encode(source)["hidden_1"])).max() > 0.01


def test_an_encoder_that_reads_characters_has_no_table() -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES, **KINDS["characters"])
    assert WordTableCache([model]).tables([range(WORDS)])["0"]["encoder"] == []


def test_few_words_are_not_worth_tables() -> None:
    cache = WordTableCache([RecurrentEncoderDecoder(WORDS, WORDS + 2, **SIZES)])
    assert not cache.tables([range(WORDS), [2]])
    assert cache.tables([range(WORDS), [2], [2]])
    assert cache.tables([[2]])  # they have been computed already


def test_models_without_tables_have_none() -> None:
    model = RNNEncoderDecoder(WORDS, WORDS, embedding_dim=4, units=6, maxout_units=4, output_rank=4)
    assert not WordTableCache([model]).tables([range(10**9)])


def test_tables_that_need_too_much_memory_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES)
    elements = 2 * (WORDS + 3) * 4 * SIZES["units"]
    monkeypatch.setattr(word_tables, "MAX_ELEMENTS", elements)
    assert WordTableCache([model]).tables([range(WORDS)])
    monkeypatch.setattr(word_tables, "MAX_ELEMENTS", elements - 1)
    assert not WordTableCache([model]).tables([range(10**9)])


def test_no_thread_gets_old_tables_while_another_computes_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES)
    cache = WordTableCache([model])
    old, compute = cache.tables([range(WORDS)]), cache._compute
    begun, go_on = threading.Event(), threading.Event()

    def slowly(argument: np.int32) -> object:
        begun.set()
        go_on.wait(timeout=60)
        return compute(argument)

    monkeypatch.setattr(cache, "_compute", slowly)
    model.encoder.embedding.embeddings.assign(-model.encoder.embedding.embeddings)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        first = threads.submit(cache.tables, [[2]])
        begun.wait(timeout=60)
        second = threads.submit(cache.tables, [[2]])
        concurrent.futures.wait([second], timeout=0.2)
        go_on.set()
    assert second.result() is first.result() is not old


@pytest.mark.usefixtures("uncompiled")
def test_searches_and_scorers_read_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES)
    source = [*range(3, 3 + WORDS), 2]
    [[found]] = Generator(model).generate([source])
    expected = Scorer(model).score([(source, found.ids)])
    for module in (recurrent_encoder, recurrent_decoder):
        monkeypatch.setattr(module, "looked_up", lambda table, words: 0 * looked_up(table, words))
    [[changed]] = Generator(model).generate([source])
    assert abs(changed.log_prob - found.log_prob) > 0.01
    assert np.abs(Scorer(model).score([(source, found.ids)]) - expected).max() > 0.01


@pytest.mark.usefixtures("uncompiled")
def test_an_ensemble_may_have_tables_for_one_of_its_models(sources: list[list[int]]) -> None:
    paper = RNNEncoderDecoder(WORDS, WORDS, embedding_dim=4, units=6, maxout_units=4, output_rank=4)
    generator = Generator([paper, RecurrentEncoderDecoder(WORDS, WORDS, **SIZES)], average="geometric")
    few = [hypotheses[0] for source in sources for hypotheses in generator.generate([without_specials(source)])]
    many = [hypotheses[0] for hypotheses in generator.generate([without_specials(source) for source in sources])]
    assert [hypothesis.ids for hypothesis in few] == [hypothesis.ids for hypothesis in many]


@pytest.mark.parametrize("kind", ["both directions", "reversed, input feeding"])
def test_a_model_trained_further_gets_new_tables(kind: str, sources: list[list[int]]) -> None:
    model = RecurrentEncoderDecoder(WORDS, WORDS, **SIZES, **KINDS[kind])
    sources = [without_specials(source) for source in sources]
    generator, scorer = Generator(model), Scorer(model)
    for _ in range(2):
        found = generator.generate(sources, BeamSampler(3))
        pairs = [(source, hypothesis.ids) for source, each in zip(sources, found, strict=True) for hypothesis in each]
        padded = [keras.utils.pad_sequences(side, padding="post") for side in zip(*pairs, strict=True)]
        expected = ops.convert_to_numpy(model.score(*padded))
        np.testing.assert_allclose([h.log_prob for each in found for h in each], expected, atol=1e-4)
        np.testing.assert_allclose(scorer.score(pairs), expected, atol=1e-4)
        for weight in model.encoder.embedding.weights + model.decoder.cells[0].weights:
            weight.assign(-weight)
