"""Contradictory hyper-parameters."""

import pytest

from keras_encdec.architectures.configurations import RecurrentEncoderDecoderConfig
from keras_encdec.configuration import ConfigurationError
from keras_encdec.trainers import TrainingConfig


@pytest.mark.parametrize(
    "settings",
    [
        {"attention_score": "general"},
        {"attention_score": "concat"},
        {"attention_units": 4},
        {"attention_window": 3},
        {"input_feeding": True},
        {"input_feeding": False},
    ],
)
def test_a_setting_of_attention_needs_attention(settings):
    (name,) = settings
    with pytest.raises(ConfigurationError, match=f"found {name}={settings[name]} without attention, expected att"):
        RecurrentEncoderDecoderConfig(**settings)
    if name not in ("attention_units", "attention_window"):
        assert getattr(RecurrentEncoderDecoderConfig(attention="global", **settings), name) == settings[name]


def test_the_score_of_attention_is_general_unless_it_is_given():
    assert RecurrentEncoderDecoderConfig(attention="global").attention_score == "general"


def test_settings_that_earlier_versions_saved_without_attention_are_read(tmp_path):
    preset = tmp_path / "settings.toml"
    preset.write_text(
        'architecture = "recurrent"\n[model]\nattention = "none"\nattention_score = "general"\ninput_feeding = false\n'
        "units = 7\n[training]\nupdates = 1\n"
    )
    config = TrainingConfig.from_preset(preset)
    assert (config.model.units, config.model.attention_score, config.model.input_feeding) == (7, None, None)
    assert TrainingConfig.from_preset(preset, model={"attention": "global"}).model.attention_score == "general"
    with pytest.raises(ConfigurationError, match="found attention_score=general without attention"):
        TrainingConfig.from_preset(preset, model={"attention_score": "general"})
