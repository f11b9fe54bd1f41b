"""The served functions against the model's equations, and what they refuse."""

import numpy as np
import oracle
import pytest
import tensorflow as tf
import toy_contract
import toy_models
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_encdec.configuration import ConfigurationError
from keras_encdec.data import pad
from keras_encdec.decoding import BeamSampler, TextGenerator, registered_samplers
from keras_encdec.decoding.unknown_replacement import UnknownReplacement
from keras_encdec.errors import InputError
from keras_encdec.export.length_sorted import PHRASES
from keras_encdec.export.phrase_ids import PhraseIds
from keras_encdec.export.saved_model import write_saved_model
from keras_encdec.export.scoring_graph import TOKENS
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.formats import model_words
from keras_encdec.formats.alignment_lines import links_line
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.models import to_symbols
from keras_encdec.scoring import TextScorer
from keras_encdec.text import Tokenizer, Vocabulary
from keras_encdec.text.position_words import is_position_word

SOURCE_WORDS = [f"s{i}" for i in range(9)]
TARGET_WORDS = [f"t{i}" for i in range(11)]
MAX_TOKENS = 40
CONFIG = ServingConfig(max_tokens=MAX_TOKENS)


def served(folder, tokenization=None, **arguments):
    """A toy model's directory and its served functions."""
    directory = ModelDirectory.load(toy_models.save_model(folder / "model", SOURCE_WORDS, TARGET_WORDS, **arguments))
    (folder / "assets").mkdir()
    return directory, ServedModel(directory, folder / "assets", CONFIG, tokenization)


@pytest.fixture
def no_search(monkeypatch):
    """Models made in the test have no signatures of samplers, to trace which takes longest."""
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", dict)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return served(tmp_path_factory.mktemp("served"))


TYPES = {"seed": tf.int64, "temperature": tf.float32}


def call(model, signature, **inputs):
    inputs = {
        name: tf.constant(values, TYPES.get(name, tf.string), (len(values),)) for name, values in inputs.items()
    }
    return {name: value.numpy() for name, value in model.signatures[signature](**inputs).items()}


def random_pairs(number, longest, seed=0):
    """Pairs of phrases of mixed lengths, empty ones and unknown words among them."""
    random = np.random.default_rng(seed)

    def phrase(words):
        return " ".join(random.choice([*words, "other"], random.integers(0, longest + 1)))

    return [(phrase(SOURCE_WORDS), phrase(TARGET_WORDS)) for _ in range(number)]


def oracle_scores(directory, pairs):
    """float64 ln p of each token, by the equations written out in NumPy."""
    weights = {name: array.astype(np.float64) for name, array in to_symbols(directory.model).items()}
    rows = []
    for source, target in pairs:
        source = directory.source_vocabulary.encode(source.split())
        target = directory.target_vocabulary.encode(target.split())
        table = oracle.token_log_probs(weights, source, target, directory.model.config.reset_after)
        rows.append(table[range(len(target)), target])
    return rows


@pytest.mark.parametrize("reset_after", [False, True])
def test_scores_are_the_oracles(toy, tmp_path, no_search, reset_after):
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
        np.testing.assert_array_equal(values, found[name])


def test_a_score_does_not_depend_on_the_batch(toy, monkeypatch):
    """Alone, with longer ones, in another order, twice; more pairs and tokens than are computed at a time."""
    directory, model = toy
    pairs = random_pairs(2 * PHRASES + 7, 30, seed=1)
    assert sum(len(target.split()) + 1 for _, target in pairs[: PHRASES]) > 2 * TOKENS
    sources, targets = zip(*pairs, strict=True)
    together = call(model, "score", source=sources, target=targets)["log_prob"]
    expected = [row.sum() for row in oracle_scores(directory, pairs)]
    # Rounded once, to float32, after the sum.
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
    bias.assign(np.where(np.arange(bias.shape[0]) == 0, -50, bias))  # padding, which no string stands for
    model = ServedModel(directory, tmp_path, CONFIG)
    words = [*TARGET_WORDS, "other"]
    targets = ["", *words, *(f"{a} {b}" for a in words for b in words)]
    found = call(model, "score_tokens", source=["s1 s2"] * len(targets), target=targets)
    # Phrases of one word or none to their end; two words, whatever follows.
    log_probs = [row[: min(n, 2)].sum() for row, n in zip(found["token_log_probs"], found["token_count"], strict=True)]
    assert np.exp(log_probs).sum() == pytest.approx(1, abs=1e-5)


def test_summaries_are_the_oracles(toy):
    directory, model = toy
    sources = ["", "s1", "s3 s4 other s0", "s1"]
    weights = {name: array.astype(np.float64) for name, array in to_symbols(directory.model).items()}
    found = call(model, "encode", source=sources)["summary"]
    for source, row in zip(sources, found, strict=True):
        expected = oracle.summary(weights, directory.source_vocabulary.encode(source.split()), False)
        np.testing.assert_allclose(row, expected, atol=1e-6)


def test_a_reverse_model_takes_the_users_sides(tmp_path, no_search):
    # Its own source is the user's target.
    folder = toy_models.save_model(tmp_path / "model", TARGET_WORDS, SOURCE_WORDS, reverse=True)
    directory = ModelDirectory.load(folder)
    model = ServedModel(directory, tmp_path, CONFIG)
    found = call(model, "score", source=["s1 s2 other", "s4"], target=["t1 other other", "t7"])
    expected = oracle_scores(directory, [("t1 other other", "s1 s2 other"), ("t7", "s4")])
    np.testing.assert_allclose(found["log_prob"], [row.sum() for row in expected], atol=1e-5)
    assert found["token_count"].tolist() == [4, 2] and found["unknown_count"].tolist() == [2, 0]
    assert call(model, "encode", target=["t1 t2"])["summary"].shape == (1, directory.model.config.units)


SOURCES = ["s1 s2 s3", "s4", "", "s5 s6 s7 s8 s0 s1 s2 s3 s4", "s1 s2 s3", "other s1"]


@pytest.mark.usefixtures("uncompiled")
def test_the_best_targets_are_those_of_the_search_in_python(toy):
    directory, model = toy
    generator = TextGenerator([directory])
    many = SOURCES * 30  # more than are decoded at a time
    found = call(model, "generate", source=many)
    expected = generator.generate(SOURCES, BeamSampler(5, num_best=5)) * 30
    for i, hypotheses in enumerate(expected):
        targets = [text.decode() for text in found["target"][i]]
        assert targets[: len(hypotheses)] == [" ".join(one.words) for one in hypotheses]
        assert not any(targets[len(hypotheses) :])
        log_probs = [one.log_prob for one in hypotheses] + [tf.float32.min] * (5 - len(hypotheses))
        np.testing.assert_allclose(found["log_prob"][i], log_probs, atol=1e-4)
    greedy = call(model, "generate_greedy", source=SOURCES)
    rows = zip(greedy["target"], greedy["log_prob"], generator.generate(SOURCES), strict=True)
    for target, log_prob, [best] in rows:
        assert target.decode() == " ".join(best.words) and log_prob == pytest.approx(best.log_prob, abs=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_the_search_that_is_served_has_the_options_of_pythons(tmp_path, toy):
    directory = toy[0]
    options = {"length_penalty": 0.8, "suppress_unknown": True}
    config = ServingConfig(max_tokens=MAX_TOKENS, beam_size=4, top_k=1, **options)
    model = ServedModel(directory, tmp_path, config)
    found = call(model, "generate", source=SOURCES)
    expected = TextGenerator([directory]).generate(SOURCES, BeamSampler(4, num_best=4, **options))
    for row, log_probs, hypotheses in zip(found["target"], found["log_prob"], expected, strict=True):
        assert [text.decode() for text in row[: len(hypotheses)]] == [" ".join(best.words) for best in hypotheses]
        np.testing.assert_allclose(log_probs[: len(hypotheses)], [best.log_prob for best in hypotheses], atol=1e-4)
    greedy = call(model, "generate_greedy", source=SOURCES)["target"].tolist()
    assert not any(b"<unk>" in target for target in [*greedy, *found["target"].ravel()])
    # Of the most probable word alone.
    drawn = call(model, "sample", source=SOURCES, seed=range(6), temperature=[1.0] * 6)
    assert drawn["target"].tolist() == greedy


def test_samples_have_the_models_scores_and_depend_on_their_seeds(toy):
    directory, model = toy
    sources, seeds, hot = SOURCES[:2] * 50, [i // 2 for i in range(100)], [2.0] * 100
    found = call(model, "sample", source=sources, seed=seeds, temperature=hot)
    again = call(model, "sample", source=sources[7:9], seed=seeds[7:9], temperature=hot[7:9])
    assert again["target"].tolist() == found["target"][7:9].tolist()
    assert len(set(found["target"].tolist())) > 60
    targets = [text.decode().replace("<unk>", "other") for text in found["target"]]
    expected = call(model, "score", source=sources, target=targets)["log_prob"]
    np.testing.assert_allclose(found["log_prob"], expected, atol=1e-4)


def test_samples_follow_the_probabilities_and_the_temperature(toy):
    directory, model = toy
    source, number = directory.source_vocabulary.encode(["s1", "s2"]), 4000
    (state, memory), words = directory.model.start([source]), [*TARGET_WORDS]
    log_probs, _ = directory.model.decoder.next_log_probs(tf.constant([0]), state, memory)
    for temperature in (1.0, 0.5):
        drawn = call(
            model, "sample", source=["s1 s2"] * number, seed=range(number), temperature=[temperature] * number
        )  # fmt: skip
        first = [text.decode().split(" ")[0] for text in drawn["target"]]
        probabilities = tf.nn.softmax(log_probs[0, 1:] / temperature).numpy()  # of no padding
        for word, probability in zip(["<unk>", "", *words], probabilities, strict=True):
            spread = np.sqrt(number * probability * (1 - probability))
            assert abs(first.count(word) - number * probability) < 4.5 * spread + 1, word


def test_the_coldest_samples_are_the_greedy_target(toy):
    greedy = call(toy[1], "generate_greedy", source=["s1 s2"])["target"].tolist()
    for temperature in (1e-37, 1e-6):
        drawn = call(toy[1], "sample", source=["s1 s2"] * 5, seed=range(5), temperature=[temperature] * 5)
        assert drawn["target"].tolist() == greedy * 5


def test_a_temperature_that_is_none_is_refused(toy):
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)temperatures.*a number, above 0"):
            call(toy[1], "sample", source=["s1"], seed=[1], temperature=[temperature])
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)seeds and temperatures.*as many"):
        call(toy[1], "sample", source=["s1"], seed=[1, 2], temperature=[1.0])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "arguments",
    [
        {"cell": "lstm", "layers": 2, "attention": "local_p", "reverse_source": True},
        {"cell": "gru", "bidirectional": "concat", "condition": "context", "reverse_source": True},
    ],
)
def test_recurrent_models_are_served_too(tmp_path, arguments):
    directory, model = served(tmp_path, **arguments)
    scorer, generator = TextScorer(directory), TextGenerator([directory])
    pairs = random_pairs(PHRASES + 20, 9)
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
        assert [text.decode() for text in targets][: len(hypotheses)] == [" ".join(one.words) for one in hypotheses]
    assert ("alignment" in best) == ("attention" in arguments)
    if "alignment" in best:
        expected = generator.generate(SOURCES, BeamSampler(5, num_best=5), with_attention=True)

        def links(hypothesis):
            return links_line(hypothesis.source_words, hypothesis.words, hypothesis.attention)

        for texts, hypotheses in zip(best["alignment"], expected, strict=True):
            assert [text.decode() for text in texts][: len(hypotheses)] == list(map(links, hypotheses))
        assert any(links(one) for hypotheses in expected for one in hypotheses)
    drawn = call(model, "sample", source=SOURCES, seed=range(6), temperature=[1.0] * 6)
    targets = [text.replace(b"<unk>", b"other") for text in drawn["target"]]
    expected = call(model, "score", source=SOURCES, target=targets)
    np.testing.assert_allclose(drawn["log_prob"], expected["log_prob"], atol=1e-4)
    encoded = call(model, "encode", source=SOURCES)
    ids = pad([directory.source_vocabulary.encode(source.split()) for source in SOURCES])
    for name, table in directory.model.encode(ids).items():
        np.testing.assert_allclose(encoded[name], table, atol=1e-6)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "arguments, samplers", [({"attention": "global"}, ["beam"]), ({"reverse": True}, ["beam", "sample"])], ids=str
)
def test_unknown_words_are_replaced_as_in_python(tmp_path, monkeypatch, arguments, samplers):
    served_alone = {name: registered_samplers()[name] for name in samplers}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: served_alone)
    target_words = ["unkpos_0", "unkpos_1", "unkpos_-1", "unkpos_null", "t\r"]
    path, sizes = tmp_path / "model", {"cell": "rnn", "layers": 1}
    toy_models.save_model(path, ["s\r", *SOURCE_WORDS], target_words, **sizes, **arguments)
    translations = {"s7": "S7", "R&D": "[R&D]", "s\r": "\xe9"}
    (tmp_path / "words").write_text("".join(f"{word}\t{other}\n" for word, other in translations.items()), "utf-8")
    directory, config = ModelDirectory.load(path), ServingConfig(replace_unknown=True, dictionary=tmp_path / "words")
    (tmp_path / "assets").mkdir()
    model = ServedModel(directory, tmp_path / "assets", config)
    sources = ["s7 Zo\xeb R&amp;D s1", "", " s7  s\r x", "s8", "s7 Zo\xeb R&amp;D s1", "a\tb c s7 d s\r e s7"]
    read, generated = ("target", "source") if "reverse" in arguments else ("source", "target")
    replacement, generator = UnknownReplacement(translations), TextGenerator([directory])
    words = set()
    found = call(model, "generate", **{read: sources})[generated]
    results = generator.generate(sources, BeamSampler(5, num_best=5), replacement)
    for texts, hypotheses in zip(found, results, strict=True):
        expected = [" ".join(each.words) for each in hypotheses]
        assert [text.decode() for text in texts][: len(expected)] == expected
        words.update(" ".join(expected).split(" "))
    assert {"S7", "\xe9", "Zo\xeb"} <= words and not any(map(is_position_word, words))
    if "sample" in samplers:
        drawn = call(model, "sample", **{read: sources}, seed=range(6), temperature=[1e-6] * 6)[generated]
        greedy = [" ".join(best.words) for best, *_ in generator.generate(sources, "greedy", replacement)]
        assert [text.decode() for text in drawn] == greedy


@pytest.mark.usefixtures("no_search")
def test_a_replacement_that_cannot_be_is_refused(tmp_path):
    directory = ModelDirectory.load(toy_models.save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS))
    with pytest.raises(ConfigurationError, match="replace_unknown with a model that has neither"):
        ServedModel(directory, tmp_path, ServingConfig(replace_unknown=True))
    with pytest.raises(InputError, match="none: found no such file"):
        ServedModel(directory, tmp_path, ServingConfig(replace_unknown=True, dictionary=tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="replace_unknown with suppress_unknown, which leaves none"):
        ServingConfig(replace_unknown=True, suppress_unknown=True)
    with pytest.raises(ConfigurationError, match="dictionary without replace_unknown, which it is for"):
        ServingConfig(dictionary="words")


@pytest.mark.usefixtures("uncompiled")
def test_any_model_that_keeps_the_contract_is_served(tmp_path):
    """With a memory along the source, its mask, and a state of integers; in a SavedModel."""
    source_words, target_words = SOURCE_WORDS[:6], TARGET_WORDS[:7]
    model = toy_contract.window_model(len(source_words), len(target_words))
    directory = ModelDirectory(tmp_path, Vocabulary(source_words), Vocabulary(target_words), model=model)
    write_saved_model(directory, tmp_path / "1", CONFIG)
    signatures = tf.saved_model.load(str(tmp_path / "1")).signatures
    pairs = random_pairs(PHRASES + 20, 9)
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
        assert [text.decode() for text in row][: len(hypotheses)] == [" ".join(one.words) for one in hypotheses]
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


def test_nothing_is_scored_as_nothing(toy):
    directory, model = toy
    empty = call(model, "score_tokens", source=[], target=[])
    assert [len(values) for values in empty.values()] == [0, 0, 0, 0]
    assert call(model, "encode", source=[])["summary"].shape == (0, directory.model.config.units)
    assert call(model, "regress", inputs=[])["outputs"].shape == (0,)
    assert call(model, "generate", source=[])["target"].shape == (0, 5)
    assert call(model, "generate_greedy", source=[])["log_prob"].shape == (0,)
    assert call(model, "sample", source=[], seed=[], temperature=[])["target"].shape == (0,)
    blank = call(model, "score", source=["", " \t "], target=["", " "])
    assert blank["token_count"].tolist() == [1, 1] and blank["log_prob"][0] == blank["log_prob"][1]
    assert blank["log_prob"][0] == pytest.approx(oracle_scores(directory, [("", "")])[0].sum(), abs=1e-6)


@pytest.mark.parametrize(
    "source, target, message",
    [
        (["s1", "s2"], ["t1"], "sources and targets.*2.*1.*as many of both"),
        (["s1 " * (MAX_TOKENS + 1)], ["t1"], f"source of.*tokens, expected at most {MAX_TOKENS}"),
        (["s1"], ["t1 " * (MAX_TOKENS + 1)], "target of.*tokens"),
        (["s" * (64 * MAX_TOKENS + 1)], ["t1"], f"source of.*bytes, expected at most {64 * MAX_TOKENS}"),
        (["s1"], [b"caf\xe9"], "target that is not UTF-8"),
        (["s1"], [b"\xed\xa0\x80"], "target that is not UTF-8"),
    ],
)
def test_what_cannot_be_scored_is_refused(toy, source, target, message):
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


WORDS = ["a", "é", "&", "\r", "a\rb", "b\r", "\x85", "\x0b", "\0", "\u2028", "\u00a0", "\ufeff", '"', "&lt;", "\\1"]


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A vocabulary of words that files, regular expressions and white space could get wrong."""
    vocabulary = Vocabulary([*WORDS, "caf\udce9"])
    return vocabulary, PhraseIds(vocabulary, tmp_path_factory.mktemp("odd") / "odd.vocab", True, 1000)


PIECES = [*WORDS, " ", "\t", "  ", "&quot;", "&amp;", "&apos;", "&#124;", "&bar;", "amp;", ";", "x", "\n", "\x1c"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]))).map("".join)))
@example(["&amp; &quot; &amp;lt; &#124; &bar;", "\r a\rb b\r", " a  \t é "])
def test_ids_are_those_of_the_phrases_words(odd, texts):
    vocabulary, ids = odd
    expected = [vocabulary.encode(model_words(text, factored=False)) for text in texts]
    found, lengths = ids(tf.constant(texts, tf.string, (len(texts),)), "source")
    assert lengths.numpy().tolist() == [len(row) for row in expected]
    for row, text in zip(found.numpy().tolist(), expected, strict=True):
        assert row[: len(text)] == text and not any(row[len(text) :])
