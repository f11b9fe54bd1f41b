"""What a trained model can be used for, read from its directory."""

import json

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.decoding import GenerationOptions
from keras_encdec.errors import InputError
from keras_encdec.experiment.distillation_options import DistillationOptions, check_teachers
from keras_encdec.export.serving_config import ServingConfig
from keras_encdec.trained_model import (
    TrainedModel,
    check_can_replace_unknown,
    check_ensemble,
    check_is_language_model,
    check_translates,
)


def described(folder, words="mot\n", **values):
    folder.mkdir()
    config = {"format": 1, "direction": "forward", "tokenization": None, "has_source": True, "sha256": {}, "model": {}}
    (folder / "config.json").write_text(json.dumps({**config, "architecture": "recurrent", **values}))
    for side in ("source", "target"):
        (folder / f"{side}.vocab").write_text(words)
        (folder / f"{side}.characters").write_text("m\no\nt\n")
    return TrainedModel.read(folder)


@pytest.mark.parametrize(
    ("values", "has_attention"),
    [
        ({"model": {"attention": "global"}}, True),
        ({"model": {"attention": "none", "dtype": "float32"}}, False),
        ({"model": {"attention": "none", "attention_score": "general", "input_feeding": False}}, False),  # version 0.1
        ({"architecture": "encdec"}, False),
        ({"architecture": "cslm", "has_source": False}, False),
        ({"architecture": "of another program"}, True),  # only the loaded model can tell
        ({"model": {"units": "many"}}, True),
    ],
)
def test_attention_is_known_from_the_hyperparameters(tmp_path, values, has_attention):
    assert described(tmp_path / "model", **values).has_attention is has_attention


def test_characters_are_known_from_the_vocabularies(tmp_path):
    plain = described(tmp_path / "plain")
    spelling = described(tmp_path / "spelling", sha256={"target.characters": "0"})
    assert (plain.spells_words, spelling.spells_words) == (False, True)
    assert spelling.target_vocabulary.characters.words == ["m", "o", "t"]
    with pytest.raises(InputError, match=r"spelling: found a different set of target .*plain.*equal --characters"):
        check_ensemble([plain, spelling])


def test_replacing_unknown_words_needs_position_words_or_attention(tmp_path):
    plain, positions = described(tmp_path / "plain"), described(tmp_path / "positions", "mot\nunkpos_0\n")
    assert (plain.has_position_words, positions.has_position_words) == (False, True)
    check_can_replace_unknown(has_attention=False, has_position_words=True, spells_words=False)
    check_can_replace_unknown(has_attention=True, has_position_words=False, spells_words=False)
    with pytest.raises(ConfigurationError, match="neither attention nor position words"):
        check_can_replace_unknown(has_attention=False, has_position_words=False, spells_words=False)
    with pytest.raises(ConfigurationError, match="neither attention nor position words"):
        check_teachers([plain.path], DistillationOptions(replace_unknown=True))


def test_a_model_that_spells_its_unknown_words_has_none_to_replace(tmp_path):
    options, attention = GenerationOptions(replace_unknown=True), {"model": {"attention": "global"}}
    options.check_models([described(tmp_path / "plain", **attention)], "sources")
    spelling = described(tmp_path / "spelling", sha256={"target.characters": "0"}, **attention)
    message = "found replace_unknown with a model that spells the words outside .*; drop it"
    with pytest.raises(ConfigurationError, match=f"{message}, or give word_translations instead"):
        options.check_models([spelling], "sources")
    with pytest.raises(ConfigurationError, match=f"{message}, or give word_translations instead"):
        ServingConfig(replace_unknown=True).check_model(spelling)
    with pytest.raises(ConfigurationError, match=f"{message}$"):
        check_teachers([spelling.path], DistillationOptions(replace_unknown=True))


def test_kinds_and_directions(tmp_path):
    forward, reverse = described(tmp_path / "forward"), described(tmp_path / "reverse", direction="reverse")
    language = described(tmp_path / "language", architecture="language_model", has_source=False)
    check_translates(forward)
    check_translates(reverse, reverse=True, flag="--other")
    with pytest.raises(InputError, match=r"of p\(target \| source\).* expected one of p\(source \| target\)"):
        check_translates(forward, reverse=True)
    assert language.source_vocabulary.words == []
    for model, found in ((reverse, "found a model of p"), (language, "found a language model")):
        with pytest.raises(InputError, match=f"{found}.* check --forward_model"):
            check_translates(model, flag="--forward_model")
    check_is_language_model(language.has_source, language.path, "--general_target")
    with pytest.raises(InputError, match="found a translation model.* check --general_target"):
        check_is_language_model(forward.has_source, forward.path, "--general_target")
    other = described(tmp_path / "other", "word\n", direction="reverse")
    for model in (reverse, other):  # named before what follows from it, such as other vocabularies
        with pytest.raises(InputError, match="found a different direction"):
            check_ensemble([forward, model])
