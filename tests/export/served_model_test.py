"""The served functions against the model's equations, and what they refuse."""

import numpy as np
import oracle
import pytest
import tensorflow as tf
import toy_contract
import toy_models
from toy_served_model import (
    CONFIG,
    MAX_TOKENS,
    SOURCE_WORDS,
    SOURCES,
    TARGET_WORDS,
    call,
    oracle_scores,
    random_pairs,
    served,
)

from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, TextGenerator
from keras_encdec.export.saved_model import write_saved_model
from keras_encdec.export.scoring_graph import PHRASES_AT_ONCE, TOKENS_AT_ONCE
from keras_encdec.export.served_model import ServedModel
from keras_encdec.formats.alignments import links_line
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import to_symbols
from keras_encdec.scoring import TextScorer
from keras_encdec.text import Tokenizer, Vocabulary


@pytest.mark.parametrize("reset_after", [False, True])
def test_scores_equal_those_of_the_oracle(toy, tmp_path, no_search, reset_after):
    directory, model = served(tmp_path, reset_after=True) if reset_after else toy
    assert directory.model.config.reset_after == reset_after
    pairs = random_pairs(30, 9)
    sources, targets = zip(*pairs, strict=True)
    found = call(model, "score_tokens", source=sources, target=targets)
    for i, row in enumerate(oracle_scores(directory, pairs)):
        assert found["token_count"][i] == len(row)
        np.testing.assert_allclose(found["token_log_probs"][i, : len(row)], row, atol=1e-5)
        assert not found["token_log_probs"][i, len(row) :].any()
        assert found["log_prob"][i] == pytest.approx(row.sum(), abs=1e-5)
        assert found["unknown_count"][i] == targets[i].split().count("other")
    totals = call(model, "score", source=sources, target=targets)
    assert set(totals) == {"log_prob", "token_count", "unknown_count"}
    for name, values in totals.items():
        np.testing.assert_allclose(values, found[name], rtol=1e-6)


def test_a_score_does_not_depend_on_the_batch(toy, monkeypatch):
    """Alone, beside longer pairs, in another order or twice; with more pairs and tokens than are computed at a time."""
    directory, model = toy
    pairs = random_pairs(2 * PHRASES_AT_ONCE + 7, 30, seed=1)
    assert sum(len(target.split()) + 1 for _, target in pairs[:PHRASES_AT_ONCE]) > 2 * TOKENS_AT_ONCE
    sources, targets = zip(*pairs, strict=True)
    together = call(model, "score", source=sources, target=targets)["log_prob"]
    expected = [row.sum() for row in oracle_scores(directory, pairs)]
    # The sum is rounded once, to float32.
    np.testing.assert_allclose(together, expected, atol=2e-5)
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(60), 2))
    again = call(model, "score", source=[sources[i] for i in order], target=[targets[i] for i in order])
    np.testing.assert_allclose(again["log_prob"], together[order], atol=2e-5)
    for i in range(20):
        alone = call(model, "score", source=[sources[i]], target=[targets[i]])["log_prob"]
        np.testing.assert_allclose(alone, together[i : i + 1], atol=2e-5)


def test_the_probabilities_of_all_continuations_sum_to_one(tmp_path, no_search):
    directory = ModelDirectory.load(toy_models.save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS))
    bias = directory.model.decoder.readout.output_bias
    bias.assign(np.where(np.arange(bias.shape[0]) == 0, -50, bias))  # padding, which no string can contain
    model = ServedModel(directory, tmp_path, CONFIG)
    words = [*TARGET_WORDS, "other"]
    targets = ["", *words, *(f"{a} {b}" for a in words for b in words)]
    found = call(model, "score_tokens", source=["s1 s2"] * len(targets), target=targets)
    # Phrases of at most one word with their ends; of longer ones, the first two words.
    log_probs = [row[: min(n, 2)].sum() for row, n in zip(found["token_log_probs"], found["token_count"], strict=True)]
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-5)


def test_summaries_equal_those_of_the_oracle(toy):
    directory, model = toy
    sources = ["", "s1", "s3 s4 other s0", "s1"]
    weights = {name: array.astype(np.float64) for name, array in to_symbols(directory.model).items()}
    found = call(model, "encode", source=sources)["summary"]
    for source, row in zip(sources, found, strict=True):
        expected = oracle.summary(weights, directory.source_vocabulary.encode(source.split()), False)
        np.testing.assert_allclose(row, expected, atol=1e-6)


def test_a_reverse_model_takes_source_and_target_of_the_user(tmp_path, no_search):
    # The source of the model is the user's target.
    folder = toy_models.save_model(tmp_path / "model", TARGET_WORDS, SOURCE_WORDS, reverse=True)
    directory = ModelDirectory.load(folder)
    model = ServedModel(directory, tmp_path, CONFIG)
    found = call(model, "score", source=["s1 s2 other", "s4"], target=["t1 other other", "t7"])
    expected = oracle_scores(directory, [("t1 other other", "s1 s2 other"), ("t7", "s4")])
    np.testing.assert_allclose(found["log_prob"], [row.sum() for row in expected], atol=1e-5)
    assert found["token_count"].tolist() == [4, 2] and found["unknown_count"].tolist() == [2, 0]
    assert call(model, "encode", target=["t1 t2"])["summary"].shape == (1, directory.model.config.units)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "arguments",
    [
        {"cell": "lstm", "layers": 2, "attention": "local_p", "reverse_source": True},
        {"cell": "gru", "bidirectional": "concat", "condition": "context", "reverse_source": True},
    ],
)
def test_recurrent_models_are_served(tmp_path, arguments):
    directory, model = served(tmp_path, **arguments)
    scorer, generator = TextScorer(directory), TextGenerator([directory])
    pairs = random_pairs(PHRASES_AT_ONCE + 20, 9)
    sources, targets = zip(*pairs, strict=True)
    found = call(model, "score_tokens", source=sources, target=targets)
    rows = scorer.token_scores([scorer.words(*pair) for pair in pairs])
    for values, count, row in zip(found["token_log_probs"], found["token_count"], rows, strict=True):
        np.testing.assert_allclose(values[:count], row, atol=1e-5)
        assert not values[count:].any()
    alone = call(model, "score", source=sources[:1], target=targets[:1])["log_prob"]
    np.testing.assert_allclose(alone, found["log_prob"][:1], atol=1e-5)
    best = call(model, "generate", source=SOURCES)
    expected = generator.generate(SOURCES, BeamSampler(5, num_best=5))
    for targets, hypotheses in zip(best["target"], expected, strict=True):
        assert [text.decode() for text in targets][: len(hypotheses)] == [
            " ".join(hypothesis.words) for hypothesis in hypotheses
        ]
    assert ("alignment" in best) == ("attention" in arguments)
    if "alignment" in best:
        expected = generator.generate(SOURCES, BeamSampler(5, num_best=5), with_attention=True)

        def links(hypothesis):
            return links_line(hypothesis.source_words, hypothesis.words, hypothesis.attention)

        for texts, hypotheses in zip(best["alignment"], expected, strict=True):
            assert [text.decode() for text in texts][: len(hypotheses)] == list(map(links, hypotheses))
        assert any(links(hypothesis) for hypotheses in expected for hypothesis in hypotheses)
    drawn = call(model, "sample", source=SOURCES, seed=range(6), temperature=[1.0] * 6)
    targets = [text.replace(b"<unk>", b"other") for text in drawn["target"]]
    expected = call(model, "score", source=SOURCES, target=targets)
    np.testing.assert_allclose(drawn["log_prob"], expected["log_prob"], atol=1e-4)
    encoded = call(model, "encode", source=SOURCES)
    ids = pad([directory.source_vocabulary.encode(source.split()) for source in SOURCES])
    for name, table in directory.model.encode(ids).items():
        np.testing.assert_allclose(encoded[name], table, atol=1e-6)


@pytest.mark.usefixtures("uncompiled")
def test_any_model_that_keeps_the_contract_is_served(tmp_path):
    """A model with a memory along the source, its mask, and a state of integers, in a SavedModel."""
    source_words, target_words = SOURCE_WORDS[:6], TARGET_WORDS[:7]
    model = toy_contract.window_model(len(source_words), len(target_words))
    directory = ModelDirectory(tmp_path, Vocabulary(source_words), Vocabulary(target_words), model=model)
    write_saved_model(directory, tmp_path / "1", CONFIG)
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    pairs = random_pairs(PHRASES_AT_ONCE + 20, 9)
    sources, targets = (tf.constant(side) for side in zip(*pairs, strict=True))
    scored = signatures["score_tokens"](source=sources, target=targets)
    ids = [
        (directory.source_vocabulary.encode(source.split()), directory.target_vocabulary.encode(target.split()))
        for source, target in pairs
    ]
    own = model.token_log_probs(pad([source for source, _ in ids]), pad([target for _, target in ids])).numpy()
    np.testing.assert_allclose(scored["token_log_probs"], own, atol=1e-5)
    for i in range(20):
        expected = toy_contract.expected_log_probs(model, *ids[i])
        np.testing.assert_allclose(scored["token_log_probs"][i, : len(expected)], expected, atol=1e-5)
    encoded = signatures["encode"](source=sources[:5])
    longest = max(len(source) for source, _ in ids[:5])
    assert encoded["annotations"].shape == (5, longest, 6) and encoded["mask"].dtype == tf.bool
    assert tf.reduce_sum(tf.cast(encoded["mask"], tf.int32), 1).numpy().tolist() == [len(s) for s, _ in ids[:5]]
    few = tf.constant(SOURCES)
    best = signatures["generate"](source=few)
    expected = TextGenerator([directory]).generate(SOURCES, BeamSampler(5, num_best=5))
    for row, hypotheses in zip(best["target"].numpy(), expected, strict=True):
        assert [text.decode() for text in row][: len(hypotheses)] == [
            " ".join(hypothesis.words) for hypothesis in hypotheses
        ]
    drawn = signatures["sample"](source=few, seed=tf.range(6, dtype=tf.int64), temperature=tf.ones(6))
    texts = tf.strings.regex_replace(drawn["target"], "<unk>", "other")
    again = signatures["score"](source=few, target=texts)["log_prob"]
    np.testing.assert_allclose(drawn["log_prob"], again, atol=1e-4)


def test_regress_reads_examples(toy):
    _, model = toy
    pairs = random_pairs(5, 4)

    def example(**features):
        lists = {name: tf.train.Feature(bytes_list={"value": [text.encode()]}) for name, text in features.items()}
        return tf.train.Example(features={"feature": lists}).SerializeToString()

    examples = [example(source=source, target=target) for source, target in pairs]
    expected = call(model, "score", source=[s for s, _ in pairs], target=[t for _, t in pairs])["log_prob"]
    np.testing.assert_allclose(call(model, "regress", inputs=examples)["outputs"], expected, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="target"):
        call(model, "regress", inputs=[example(source="s1")])
    with pytest.raises(tf.errors.InvalidArgumentError, match="parse"):
        call(model, "regress", inputs=[b"no example"])


def test_an_empty_batch_has_empty_scores(toy):
    directory, model = toy
    empty = call(model, "score_tokens", source=[], target=[])
    assert [len(values) for values in empty.values()] == [0, 0, 0, 0]
    assert call(model, "encode", source=[])["summary"].shape == (0, directory.model.config.units)
    assert call(model, "regress", inputs=[])["outputs"].shape == (0,)
    assert call(model, "generate", source=[])["target"].shape == (0, 5)
    assert call(model, "generate_greedy", source=[])["log_prob"].shape == (0,)
    assert call(model, "sample", source=[], seed=[], temperature=[])["target"].shape == (0,)
    blank = call(model, "score", source=["", " \t "], target=["", " "])
    assert blank["token_count"].tolist() == [1, 1]
    np.testing.assert_allclose(blank["log_prob"], oracle_scores(directory, [("", "")])[0].sum(), atol=1e-6)


@pytest.mark.parametrize(
    "source, target, message",
    [
        (["s1", "s2"], ["t1"], "sources and targets.*2.*1.*expected equal numbers"),
        (["s1 " * (MAX_TOKENS + 1)], ["t1"], f"source of.*tokens, expected at most {MAX_TOKENS}"),
        (["s1"], ["t1 " * (MAX_TOKENS + 1)], "target of.*tokens"),
        (["s" * (64 * MAX_TOKENS + 1)], ["t1"], f"source of.*bytes, expected at most {64 * MAX_TOKENS}"),
        (["s1"], [b"caf\xe9"], "target that is not UTF-8"),
        (["s1"], [b"\xed\xa0\x80"], "target that is not UTF-8"),
    ],
)
def test_requests_that_cannot_be_scored_are_refused(toy, source, target, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"(?s)assertion failed.*{message}"):
        call(toy[1], "score", source=source, target=target)


def test_the_longest_phrases_allowed_are_scored(toy):
    longest = " ".join(["s1"] * MAX_TOKENS)
    found = call(toy[1], "score", source=[longest, "s" * (64 * MAX_TOKENS)], target=[longest, "t1"])
    assert found["token_count"].tolist() == [MAX_TOKENS + 1, 2]


def test_raw_text_is_tokenized_as_in_training(tmp_path, no_search):
    pytest.importorskip("tensorflow_text")
    tokenization = {"lowercase": True}
    directory, model = served(tmp_path, tokenization)
    texts = ["S1, s2!", "  s3\u00a0S4…", "", "s1 &quot;"]
    words = Tokenizer(**tokenization).words(texts)
    assert call(model, "tokenize", text=texts)["tokens"].tolist() == [" ".join(row).encode() for row in words]
    found = call(model, "score", source=texts, target=["t1", "T2.", "t3", ""])["log_prob"]
    pairs = [(" ".join(row), target) for row, target in zip(words, ["t1", "t2 .", "t3", ""], strict=True)]
    np.testing.assert_allclose(found, [row.sum() for row in oracle_scores(directory, pairs)], atol=1e-5)
