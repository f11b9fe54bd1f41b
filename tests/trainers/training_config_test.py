"""The settings of a training run: what they are, and which of them contradict each other."""

import dataclasses
import importlib
import pkgutil

import pytest

from keras_encdec import cli
from keras_encdec.architectures import preset_names
from keras_encdec.architectures.architecture_registry import architecture
from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.errors import InputError
from keras_encdec.trainers import TrainingConfig, TrainingData
from keras_encdec.trainers.training_config import check_together


@pytest.mark.parametrize("name", preset_names())
def test_presets_have_known_names_and_allowed_values(name):
    config, data = TrainingConfig.from_preset(name, updates=1), TrainingData.from_preset(name, tsv="pairs.tsv")
    assert isinstance(config.model, architecture(config.architecture).config)
    check_together(config, data)


def test_presets_are_what_was_published():
    paper, sentences = TrainingConfig.from_preset("cho2014", updates=1), TrainingConfig.from_preset("luong2015")
    assert paper == TrainingConfig(updates=1), "the defaults are the paper's"
    assert (sentences.model.layers, sentences.model.units, sentences.model.dropout) == (4, 1000, 0.2)
    assert (sentences.schedule, sentences.halving_start, sentences.epochs) == ("halving", 8.0, 12.0)
    for name, source in (
        ("cho2014", "Cho et al., 2014, section"),
        ("luong2015", "Luong et al., 2015, section 4.1"),
        ("luong2015_attention", "Luong et al., 2015, section"),
        ("cslm", "CSLM of Cho et al., 2014"),
    ):
        config, data = TrainingConfig.from_preset(name, updates=1), TrainingData.from_preset(name)
        for part in (config, config.model, data):
            for parameter in part.hyperparameters():
                published = [value for where, value in parameter.published.items() if where.startswith(source)]
                assert getattr(part, parameter.name) in (published or [getattr(part, parameter.name)]), parameter.name


def test_given_values_override_a_preset_and_must_be_known():
    config = TrainingConfig.from_preset("small", updates=3, model={"units": 8}, optimizer="sgd")
    assert (config.model.units, config.model.maxout_units, config.optimizer, config.batch_size) == (8, 128, "sgd", 128)
    assert TrainingData.from_preset("small", max_length=7).max_length == 7
    for config_class in (TrainingConfig, TrainingData):
        with pytest.raises(ConfigurationError, match="found the unknown hyper-parameter 'units', expected one of"):
            config_class.from_preset("small", units=8)


@pytest.mark.parametrize("preset", ["small_sentences", "luong2015_attention"])
def test_attention_options_of_a_preset_are_ignored_without_attention(preset):
    attentive = TrainingConfig.from_preset(preset, updates=1).model
    assert attentive.attention != "none" and attentive.input_feeding == (preset != "small_sentences")
    config = TrainingConfig.from_preset(preset, updates=1, model={"attention": "none"}).model
    assert (config.attention, config.attention_score, config.input_feeding) == ("none", None, None)
    assert config.units == attentive.units
    with pytest.raises(ValueError, match="found attention_score=dot without attention, expected attention"):
        TrainingConfig.from_preset(preset, updates=1, model={"attention": "none", "attention_score": "dot"})


def test_options_of_a_presets_other_architecture_or_schedule_are_ignored():
    config = TrainingConfig.from_preset("small_sentences", architecture="language_model", updates=1)
    assert (config.model.cell, config.model.units, config.model.dropout) == ("gru", 256, 0.3)
    config = TrainingConfig.from_preset("small_sentences", architecture="encdec", updates=1)
    assert (config.model.units, config.model.maxout_units) == (256, 500)
    assert TrainingConfig.from_preset("luong2015", schedule="constant").halving_start == 5.0


def test_numbers_beyond_the_range_of_floats_are_refused():
    for name in ("learning_rate", "updates"):
        with pytest.raises(ValueError, match=f"found {name}=1000.*, expected a"):
            TrainingConfig(**{"updates": 1, name: 10**400})


@pytest.mark.parametrize(
    ("name", "largest"), [("epochs", 1e9), ("minutes", 1e9), ("halving_start", 1e9), ("clip_norm", 1e30)]
)
def test_numbers_that_lead_out_of_the_range_of_floats_are_refused(name, largest):
    settings = {"updates": 1, "schedule": "halving"}
    assert getattr(TrainingConfig(**settings, **{name: largest}), name) == largest
    with pytest.raises(
        ConfigurationError, match=f"found {name}=1e.308, expected a number, .*{largest:g}".replace("+", ".")
    ):
        TrainingConfig(**settings, **{name: 1e308})


def test_a_preset_with_an_unknown_name_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="found None in place of the path of a preset, expected a str or"):
        TrainingConfig.from_preset(None)
    for text, expected in [
        ("[training]\nupdates = 1\nlerning_rate = 1.0\n", "'lerning_rate', expected one of .*learning_rate"),
        ("[data]\nwords = 1\n", "unknown hyper-parameter 'words'"),
        ("[model]\ncell = 'gru'\n", "unknown hyper-parameter 'cell', expected one of embedding_dim"),
        ("[model]\nunits = 0\n", "found units=0, expected a whole number, 1 or more"),
        ("architecture = 'transformer'\n", "found architecture='transformer', expected one of encdec, recurrent"),
        ("[sizes]\nunits = 0\n", "found sizes, expected architecture and the tables model, training, data"),
        ("units = \n", "found a file that cannot be read"),
        ("units = " + "[" * 9999, "found a file that cannot be read .it is nested too deeply."),
        ("architecture = []\n", r"found architecture=\[\], expected one of encdec"),
        (f"[model]\nunits = 1{'0' * 400}\n", "found units=1000"),
    ]:
        (tmp_path / "my.toml").write_text(text)
        with pytest.raises(InputError, match=f"{tmp_path}/my.toml: .*{expected}"):
            TrainingConfig.from_preset(tmp_path / "my.toml", updates=1)
            TrainingData.from_preset(tmp_path / "my.toml")
    with pytest.raises(ValueError, match="found preset='large', expected one of cho2014, cho2014_supplement, cslm, "):
        TrainingConfig.from_preset("large")


@pytest.mark.parametrize(
    "values, expected",
    [
        (
            {"updates": 1, "dtype_policy": "bfloat16", "optimizer": "adam", "learning_rate": 0.1},
            "adam with .*bfloat16.*=mixed_bfloat16",
        ),
        ({"updates": 1, "optimizer": "rmsprop"}, "found optimizer=rmsprop with learning_rate=1, with which it diver"),
        ({}, "found nothing that says when the training ends; give one of updates, epochs, minutes, patience and p"),
        ({"patience": 1, "schedule": "cosine"}, "found schedule=cosine, expected updates, epochs or minutes with it"),
        ({"updates": 1, "halving_start": 2}, "found halving_start with schedule=constant, expected it with schedule"),
        ({"updates": 1, "schedule": "halving", "halving_every": 0}, "found halving_every=0, expected a number, 1e-06"),
        ({"updates": 1, "pad_to": (4, "x")}, "found pad_to=.4, 'x'., expected whole numbers in a list, 1 or more"),
        ({"updates": 1, "architecture": "x"}, "found architecture='x', expected one of encdec, recurrent, lang"),
        (
            {"updates": 1, "architecture": "language_model", "validation_bleu": True},
            "found validation_bleu with architecture=language_model, which has no source to translate",
        ),
        ({"updates": 1, "model": {"layers": 2}}, "found the unknown hyper-parameter 'layers', expected one of"),
        ({"updates": 1, "model": architecture("recurrent").config()}, "found a RecurrentEncoderDecoderConfig with"),
        ({"updates": 1, "model": "small"}, "found a str with architecture=encdec, expected a RNNEncoderDecoderConfig"),
    ],
)
def test_settings_that_contradict_are_refused(values, expected):
    with pytest.raises(ConfigurationError, match=expected):
        TrainingConfig(**values)


def test_options_of_a_presets_other_attention_are_ignored(tmp_path):
    config = TrainingConfig.from_preset("luong2015_attention", updates=1, model={"attention": "global"})
    assert (config.model.attention_score, config.model.attention_window) == ("general", None)
    preset = tmp_path / "mine.toml"
    preset.write_text(
        'architecture = "recurrent"\n[model]\nattention = "local_m"\nattention_score = "concat"\n'
        "attention_window = 3\nattention_units = 7\n[training]\nupdates = 1\n"
    )
    config = TrainingConfig.from_preset(preset, model={"attention_score": "dot"})
    assert (config.model.attention_window, config.model.attention_units) == (3, None)
    with pytest.raises(ConfigurationError, match="attention_window with attention=global"):
        TrainingConfig.from_preset(preset, model={"attention": "global", "attention_window": 3})


@dataclasses.dataclass(frozen=True)
class Options(Configuration):
    table: str | None = hyperparameter(None, "A table.")
    words: int | None = hyperparameter(None, "With a table.", needs="table")
    names: str | None = hyperparameter(None, "With a table.", needs="table")


def test_a_field_of_a_class_without_the_decorator_is_an_error(monkeypatch):
    monkeypatch.setattr(Options, "lines", hyperparameter(3, "As in a subclass without it."), raising=False)
    with pytest.raises(TypeError, match=r"found Options with the field 'lines' without @dataclasses.dataclass\(frozen"):
        Options()


def test_an_option_is_refused_without_the_option_that_it_needs():
    for allowed in ({}, {"table": "t"}, {"table": "t", "words": 0, "names": "n"}, {"names": ""}):
        Options(**allowed)
    for name, value in (("words", 0), ("names", "n")):
        with pytest.raises(ConfigurationError, match=f"found {name} without table, expected both"):
            Options(**{name: value})


def test_options_need_options_that_exist():
    for module in pkgutil.iter_modules(cli.__path__):
        importlib.import_module(f"{cli.__name__}.{module.name}")
    remaining, found = [Configuration], 0
    while remaining:
        kind = remaining.pop()
        remaining += kind.__subclasses__()
        parameters = list(kind.hyperparameters())
        needed = {parameter.needs for parameter in parameters} - {""}
        assert needed <= {parameter.name for parameter in parameters}, kind
        found += len(needed)
    assert found > 10
