"""The searches that are served against those in Python, and what they refuse."""

import numpy as np
import pytest
import tensorflow as tf
from toy_served_model import MAX_TOKENS, SOURCES, TARGET_WORDS, call

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import BeamSampler, TextGenerator
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.word_translations import ServedShortlist
from keras_encdec.text.lexical_shortlist import LexicalShortlist
from keras_encdec.text.vocabulary import FIRST_WORD, Vocabulary


@pytest.mark.usefixtures("uncompiled")
def test_the_best_targets_equal_those_of_the_search_in_python(toy):
    directory, model = toy
    generator = TextGenerator([directory])
    many = SOURCES * 30  # more than are searched at a time
    found = call(model, "generate", source=many)
    expected = generator.generate(SOURCES, BeamSampler(5, num_best=5)) * 30
    for i, hypotheses in enumerate(expected):
        targets = [text.decode() for text in found["target"][i]]
        assert targets[: len(hypotheses)] == [" ".join(hypothesis.words) for hypothesis in hypotheses]
        assert not any(targets[len(hypotheses) :])
        log_probs = [hypothesis.log_prob for hypothesis in hypotheses] + [tf.float32.min] * (5 - len(hypotheses))
        np.testing.assert_allclose(found["log_prob"][i], log_probs, atol=1e-4)
    greedy = call(model, "generate_greedy", source=SOURCES)
    rows = zip(greedy["target"], greedy["log_prob"], generator.generate(SOURCES), strict=True)
    for target, log_prob, [best] in rows:
        assert target.decode() == " ".join(best.words) and log_prob == pytest.approx(best.log_prob, abs=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_the_served_search_has_the_options_of_the_search_in_python(tmp_path, toy):
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
    # The config draws only from the most probable word.
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
        drawn = call(model, "sample", source=["s1 s2"] * number, seed=range(number), temperature=[temperature] * number)
        first = [text.decode().split(" ")[0] for text in drawn["target"]]
        probabilities = tf.nn.softmax(log_probs[0, 1:] / temperature).numpy()  # without padding
        for word, probability in zip(["<unk>", "", *words], probabilities, strict=True):
            spread = np.sqrt(number * probability * (1 - probability))
            assert abs(first.count(word) - number * probability) < 4.5 * spread + 1, word


def test_the_coldest_samples_are_the_greedy_target(toy):
    greedy = call(toy[1], "generate_greedy", source=["s1 s2"])["target"].tolist()
    for temperature in (1e-37, 1e-6):
        drawn = call(toy[1], "sample", source=["s1 s2"] * 5, seed=range(5), temperature=[temperature] * 5)
        assert drawn["target"].tolist() == greedy * 5


def test_an_invalid_temperature_is_refused(toy):
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)temperatures.*a number, above 0"):
            call(toy[1], "sample", source=["s1"], seed=[1], temperature=[temperature])
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)seeds and temperatures.*expected equal numbers"):
        call(toy[1], "sample", source=["s1"], seed=[1, 2], temperature=[1.0])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("most", [6, 1024])
def test_a_lexical_shortlist_limits_the_words_as_in_python(tmp_path, toy, monkeypatch, most):
    """With 6 candidates, groups of several sources search among all words, and mask them."""
    monkeypatch.setattr("keras_encdec.export.search_graph.CANDIDATES", most)
    directory = toy[0]
    (tmp_path / "table").write_text("s1\tt3\t1\ns2\tt1\t0.7\ns2\tt2\t0.3\ns7\tt4\t1\n")
    options = {"lexical_shortlist": tmp_path / "table", "shortlist_words": 1, "frequent_words": 1}
    model = ServedModel(directory, tmp_path, ServingConfig(max_tokens=MAX_TOKENS, **options))
    shortlist = LexicalShortlist.read(tmp_path / "table", directory.target_vocabulary, 1, 1)
    generator = TextGenerator([directory])
    every = generator.generate(SOURCES, BeamSampler(5, num_best=5), lexical_shortlist=shortlist)
    for sources, expected in ((SOURCES, every), (SOURCES[:1], every[:1])):
        found = call(model, "generate", source=sources)
        for targets, log_probs, hypotheses in zip(found["target"], found["log_prob"], expected, strict=True):
            assert [text.decode() for text in targets[: len(hypotheses)]] == [" ".join(h.words) for h in hypotheses]
            np.testing.assert_allclose(log_probs[: len(hypotheses)], [h.log_prob for h in hypotheses], atol=1e-4)
    greedy = call(model, "generate_greedy", source=SOURCES)["target"]
    expected = generator.generate(SOURCES, "greedy", lexical_shortlist=shortlist)
    assert [text.decode() for text in greedy] == [" ".join(best.words) for [best] in expected]
    with pytest.raises(ConfigurationError, match="frequent_words without lexical_shortlist"):
        ServingConfig(frequent_words=3)


def test_words_that_are_not_utf8_may_be_in_a_lexical_shortlist(tmp_path):
    vocabulary = Vocabulary(["b", "caf\udce9", "a"])
    (tmp_path / "table").write_text("s1\ta\t1\n")
    served = ServedShortlist(LexicalShortlist.read(tmp_path / "table", vocabulary, 1, 0), vocabulary)
    allowed = served.allowed(tf.constant([["s1", ""], [b"caf\xe9", ""]])).numpy()
    assert allowed[:, FIRST_WORD:].tolist() == [[False, False, True], [False, True, False]]
