"""Replacement of unknown words in the served graph, against Python."""

import numpy as np
import pytest
import tensorflow as tf
import toy_models
from toy_served_model import SOURCE_WORDS, TARGET_WORDS, call

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import BeamSampler, TextGenerator, registered_samplers
from keras_encdec.decoding.text_generator import UnknownReplacement
from keras_encdec.errors import InputError
from keras_encdec.export.served_model import ServedModel
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.export.unknown_words import ServedReplacement
from keras_encdec.formats.alignments import links_line
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import FIRST_WORD, UNKNOWN, Vocabulary, is_position_word


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    "arguments, samplers", [({"attention": "global"}, ["beam"]), ({"reverse": True}, ["beam", "sample"])], ids=str
)
def test_unknown_words_are_replaced_as_in_python(tmp_path, monkeypatch, arguments, samplers):
    served_alone = {name: registered_samplers()[name] for name in samplers}
    monkeypatch.setattr("keras_encdec.export.served_model.registered_samplers", lambda: served_alone)
    target_words = ["unkpos_0", "unkpos_1", "unkpos_-1", "unkpos_null", "t\r", "t@@", "\u2581t"]
    path, sizes = tmp_path / "model", {"cell": "rnn", "layers": 1}
    toy_models.save_model(path, ["s\r", *SOURCE_WORDS], target_words, **sizes, **arguments)
    translations = {"s7": "S7 seven", "R&D": "[R&D]", "s\r": "\xe9", "M\xfcnchen": "\u2581M \u2581un"}
    (tmp_path / "words").write_text("".join(f"{word}\t{other}\n" for word, other in translations.items()), "utf-8")
    directory, config = ModelDirectory.load(path), ServingConfig(replace_unknown=True, dictionary=tmp_path / "words")
    (tmp_path / "assets").mkdir()
    model = ServedModel(directory, tmp_path / "assets", config)
    sources = ["s7 Zo\xeb R&amp;D s1", "", " s7  s\r x", "s8", "s7 Zo\xeb R&amp;D s1", "a\tb c s7 d s\r e s7"]
    sources += ["s7 M@@ \xfcn@@ chen s@@ 7 end@@", "\u2581s 7 \u2581M \xfcn chen \u2581s2 s1 \u2581end"]
    read, generated = ("target", "source") if "reverse" in arguments else ("source", "target")
    replacement, generator = UnknownReplacement(translations), TextGenerator([directory])
    words = set()
    found = call(model, "generate", **{read: sources})
    results = generator.generate(sources, BeamSampler(5, num_best=5), replacement)
    if generator.has_attention:
        for row, hypotheses in zip(found["alignment"], results, strict=True):
            links = [links_line(each.source_words, each.words, each.attention) for each in hypotheses]
            assert [text.decode() for text in row][: len(links)] == links
    for texts, hypotheses in zip(found[generated], results, strict=True):
        expected = [" ".join(each.words) for each in hypotheses]
        assert [text.decode() for text in texts][: len(expected)] == expected
        words.update(" ".join(expected).split(" "))
    assert {"seven", "\u2581seven", "\xe9", "Zo\xeb", "\u2581un"} <= words and not any(map(is_position_word, words))
    if "sample" in samplers:
        drawn = call(model, "sample", **{read: sources}, seed=range(8), temperature=[1e-6] * 8)[generated]
        greedy = [" ".join(best.words) for best, *_ in generator.generate(sources, "greedy", replacement)]
        assert [text.decode() for text in drawn] == greedy


@pytest.mark.usefixtures("no_search")
def test_without_a_dictionary_unknown_words_are_copied_and_a_word_with_their_name_is_one(tmp_path):
    vocabulary = Vocabulary(["b", "<unk>"])
    replacement, python = ServedReplacement(vocabulary, {}, has_attention=True), UnknownReplacement()
    targets = ["b", "<unk>", "b"]
    for ids in ([FIRST_WORD, UNKNOWN, FIRST_WORD], [FIRST_WORD, FIRST_WORD + 1, FIRST_WORD]):
        given = map(tf.constant, ([[targets]], [[ids]], [[[0, 1, 0]]], [["x", "y"]], [3]))
        found = replacement(*given)
        expected = python.replaced(targets, ["x", "y"], np.eye(3)[[0, 1, 0]])
        assert [word.decode() for word in found.numpy()[0, 0]] == expected == ["b", "y", "b"]


@pytest.mark.usefixtures("no_search")
def test_replacement_without_attention_or_position_words_is_refused(tmp_path):
    directory = ModelDirectory.load(toy_models.save_model(tmp_path / "model", SOURCE_WORDS, TARGET_WORDS))
    with pytest.raises(ConfigurationError, match="replace_unknown with a model that has neither"):
        ServedModel(directory, tmp_path, ServingConfig(replace_unknown=True))
    with pytest.raises(InputError, match="none: found no such file"):
        ServedModel(directory, tmp_path, ServingConfig(replace_unknown=True, dictionary=tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="replace_unknown with suppress_unknown, which never generates"):
        ServingConfig(replace_unknown=True, suppress_unknown=True)
    with pytest.raises(ConfigurationError, match="dictionary without replace_unknown, expected both"):
        ServingConfig(dictionary="words")
