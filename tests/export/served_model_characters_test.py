"""The served functions of hybrid word-character models against those of Python."""

import keras
import numpy as np
import pytest
from hybrid_toys import hybrid
from toy_served_model import CONFIG, call

from keras_encdec.decoding import BeamSampler, TextGenerator
from keras_encdec.decoding.sampler_registry import registered_samplers
from keras_encdec.export.comparison import model_scores, pairs_of_words, random_pairs
from keras_encdec.export.served_model import ServedModel
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text import Vocabulary
from keras_encdec.text.lexical_shortlist import RareTranslations
from keras_encdec.text.vocabulary import END, UNKNOWN

SOURCES = ["s1 sone s2", "", "e\u0301 \u00e9 none", "s0 語" + "x" * 900, "s1 sone s2"]


def served_hybrid(folder, characters, config=CONFIG, unknown_bias=1.5, **arguments):
    """The directory of a model that often predicts the unknown word, and its served functions."""
    model = hybrid(characters, **arguments)
    bias = keras.ops.convert_to_numpy(model.decoder.output_matrix.bias).copy()
    bias[[0, UNKNOWN, END]] = -40, unknown_bias, 0.5
    model.decoder.output_matrix.bias.assign(bias)
    source = Vocabulary("néo") if characters != "target" else None
    target = Vocabulary("語ab") if characters != "source" else None
    vocabularies = Vocabulary(["s0", "s1", "s2"], characters=source), Vocabulary(["a", "ba", "語語"], characters=target)
    directory = ModelDirectory(folder / "model", *vocabularies)
    directory.model = model
    return directory, ServedModel(directory, folder, config)


def check_scores(directory, model, number):
    texts = [*random_pairs(directory, number), ("", ""), ("s1", "ba " + "\u0301a" * 300), ("none nose", "no no b")]
    expected = model_scores(directory, pairs_of_words(texts, None))
    sources, targets = zip(*texts, strict=True)
    found = call(model, "score", source=sources, target=targets)
    np.testing.assert_allclose(found["log_prob"], expected, atol=1e-4)
    assert found["unknown_count"].tolist()[-2:] == [1, 3]
    alone = call(model, "score", source=sources[-1:], target=targets[-1:])
    np.testing.assert_allclose(alone["log_prob"], expected[-1:], atol=1e-4)


@pytest.mark.usefixtures("uncompiled")
def test_scores_and_spelled_targets_equal_those_of_python(tmp_path, monkeypatch):
    samplers = {name: registered_samplers()[name] for name in ("beam", "sample")}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: samplers)
    directory, model = served_hybrid(tmp_path, "both")
    check_scores(directory, model, 12)
    found = call(model, "generate", source=SOURCES)
    expected = TextGenerator([directory]).generate(SOURCES, BeamSampler(5, num_best=5))
    for targets, log_probs, hypotheses in zip(found["target"], found["log_prob"], expected, strict=True):
        texts = [target.decode() for target in targets]
        assert texts[: len(hypotheses)] == [" ".join(hypothesis.words) for hypothesis in hypotheses]
        np.testing.assert_allclose(
            log_probs[: len(hypotheses)], [hypothesis.log_prob for hypothesis in hypotheses], atol=1e-4
        )
    written = b" ".join(found["target"].ravel()).decode().split()
    assert "<unk>" not in written and {"語", "a", "b"} & {word[0] for word in written}
    drawn = call(model, "sample", source=SOURCES, seed=range(5), temperature=[1.0] * 5)
    assert b"<unk>" not in b" ".join(drawn["target"])
    # No word of the shortlist is spelled: its score would be another.
    again = call(model, "score", source=SOURCES, target=drawn["target"])
    np.testing.assert_allclose(drawn["log_prob"], again["log_prob"], atol=1e-4)
    for source, targets, hypotheses in zip(SOURCES, found["target"], expected, strict=True):
        again = call(model, "score", source=[source] * len(hypotheses), target=targets[: len(hypotheses)])
        np.testing.assert_allclose([hypothesis.log_prob for hypothesis in hypotheses], again["log_prob"], atol=1e-4)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("weight", [0.8, 1.0])
def test_translations_compete_with_spellings_as_in_python(tmp_path, monkeypatch, weight):
    samplers = {"beam": registered_samplers()["beam"]}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: samplers)
    table = {
        "s1": {"ab": 0.5, "a": 0.25, "語a": 0.125, **{"a" * i: 0.01 for i in range(2, 12)}},
        "s2": {"ab": 0.25, "bbb": 0.25, "xx": 0.5},
        "none": {"a": 0.5, "ba": 0.5},  # both in the shortlist
        "sone": {"語b": 1.0},
        # One of the words is also copied.
        "tone": {"bab": 0.4, "aab": 0.6},
        # More equally probable words than can compete, in two orders.
        "up": {"b" + "a" * i: 0.05 for i in range(2, 14)},
        "down": {"b" + "a" * i: 0.05 for i in reversed(range(2, 14))},
    }
    lines = [f"{word}\t{other}\t{p}\n" for word, targets in table.items() for other, p in targets.items()]
    (tmp_path / "table").write_text("".join(lines))
    config = CONFIG.replace(word_translations=str(tmp_path / "table"), translation_weight=weight)
    directory, model = served_hybrid(tmp_path, "target", config, unknown_bias=0.2, input_feeding=False)
    sources = [*SOURCES, "s2 s1 s2 bab", "tone tone bab tone", "up", "down", "s0 down up"]
    sources += ["bb \u00e9b b\u0301 語" + "a" * 60, "語" * 49]
    found = call(model, "generate", source=sources)
    rare = RareTranslations(table, directory.target_vocabulary)
    arguments = {"word_translations": rare, "translation_weight": weight}
    expected = TextGenerator([directory]).generate(sources, BeamSampler(5, num_best=5), **arguments)
    plain = TextGenerator([directory]).generate(sources, BeamSampler(5, num_best=5))
    in_order = [
        sorted(hypotheses, key=lambda hypothesis: -hypothesis.log_prob) == hypotheses for hypotheses in expected
    ]
    assert not all(in_order), "the table ranks no hypotheses differently"
    changed = 0
    for targets, log_probs, hypotheses, spelled in zip(
        found["target"], found["log_prob"], expected, plain, strict=True
    ):
        assert [target.decode() for target in targets[: len(hypotheses)]] == [
            " ".join(hypothesis.words) for hypothesis in hypotheses
        ]
        np.testing.assert_allclose(
            log_probs[: len(hypotheses)], [hypothesis.log_prob for hypothesis in hypotheses], atol=1e-4
        )
        changed += [hypothesis.words for hypothesis in hypotheses] != [hypothesis.words for hypothesis in spelled]
    assert changed > 2
    assert weight < 1 or "語" * 49 in b" ".join(found["target"].ravel()).decode().split(), "copied"


@pytest.mark.usefixtures("uncompiled")
def test_source_words_are_copied_if_the_table_has_only_words_of_the_shortlist(tmp_path, monkeypatch):
    samplers = {"beam": registered_samplers()["beam"]}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: samplers)
    (tmp_path / "table").write_text("s1\tba\t1\n")
    config = CONFIG.replace(word_translations=str(tmp_path / "table"), translation_weight=1.0)
    directory, model = served_hybrid(tmp_path, "target", config, input_feeding=False)
    found = call(model, "generate", source=["bab s1", "s1"])
    rare = RareTranslations({"s1": {"ba": 1.0}}, directory.target_vocabulary)
    expected = TextGenerator([directory]).generate(
        ["bab s1", "s1"], BeamSampler(5, num_best=5), word_translations=rare, translation_weight=1.0
    )
    for targets, hypotheses in zip(found["target"], expected, strict=True):
        texts = [" ".join(hypothesis.words) for hypothesis in hypotheses]
        assert [target.decode() for target in targets[: len(texts)]] == texts
    assert b"bab" in b" ".join(found["target"][0]).split()


@pytest.mark.parametrize("characters", ["source", "target"])
def test_one_side_alone_may_have_characters(tmp_path, no_search, characters):
    check_scores(*served_hybrid(tmp_path, characters, input_feeding=False, character_layers=1), 6)
