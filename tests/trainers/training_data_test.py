"""Options of the training data."""

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.trainers import TrainingConfig, TrainingData
from keras_encdec.trainers.training_config import check_together

TABLE, TSV = {"phrase_table": "table.gz"}, {"tsv": "pairs.tsv"}


@pytest.mark.parametrize(
    "values, expected",
    [
        (
            {**TABLE, "tokenize": True},
            "found tokenize with phrase_table, whose text is tokenized already; drop tokenize",
        ),
        ({**TSV, "lowercase": True}, "found lowercase without tokenize, expected both"),
        ({**TSV, "alignment": "links"}, "found alignment without unknown=posunk, expected both"),
        ({**TSV, "validation": ("a",), "validation_alignment": "links"}, "found validation_alignment without unknown="),
        ({**TSV, "validation": ("a", "b")}, "found 2 files in validation, expected 1 as for training"),
        ({"source": "s", "target": "t", "validation": ("a",)}, "found 1 file in validation, .*, such as validation=v"),
    ],
)
def test_data_options_that_contradict_are_refused(values, expected):
    with pytest.raises(ConfigurationError, match=expected):
        TrainingData(**values)


def test_relative_paths_in_a_preset_start_from_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    preset = tmp_path / "folder" / "preset.toml"
    preset.parent.mkdir()
    preset.write_text(
        '[training]\nupdates = 1\ninitial_model = "first"\n'
        '[data]\nsource = "train.en"\ntarget = "s3://bucket/train.fr"\nvalidation = ["../dev.en", "~/dev.fr"]\n'
    )
    data = TrainingData.from_preset(preset)
    assert data.files == {"source": f"{preset.parent}/train.en", "target": "s3://bucket/train.fr"}
    assert data.validation == (f"{preset.parent}/../dev.en", "/home/me/dev.fr")
    assert TrainingData.from_preset(preset, source="train.en").source == "train.en"
    assert TrainingConfig.from_preset("folder/preset.toml").initial_model == "folder/first"
    preset.write_text('[training]\nupdates = 1\ninitial_model = "libreoffice_en_fr"\n[data]\ntarget = "-"\n')
    assert TrainingConfig.from_preset(preset).initial_model == "libreoffice_en_fr"
    assert TrainingData.from_preset(preset).files == {"target": "-"}
    preset.write_text('[training]\nupdates = 1\ninitial_model = ""\n[data]\ntarget = "t"\nvalidation = [""]\n')
    assert TrainingConfig.from_preset(preset).initial_model == ""
    assert TrainingData.from_preset(preset).validation == ("",)


def test_pairs_of_another_kind_replace_those_of_a_preset(tmp_path):
    preset = tmp_path / "preset.toml"
    preset.write_text(
        '[data]\nsource = "/s"\ntarget = "/t"\nvalidation = ["/vs", "/vt"]\nunknown = "posunk"\nalignment = "/links"\n'
    )
    data = TrainingData.from_preset(preset, **TSV)
    assert data == TrainingData(**TSV, unknown="posunk")
    assert TrainingData.from_preset(preset, **TSV, validation=("v",)).validation == ("v",)
    kept = TrainingData.from_preset(preset, source="other", tsv="")
    assert kept.files == {"source": "other", "target": "/t"} and kept.validation == ("/vs", "/vt")


@pytest.mark.parametrize(
    "settings, data, expected",
    [
        ({}, {}, "found no data to train on, expected one of phrase_table, tsv, input, or source with target"),
        ({}, {**TABLE, **TSV}, "found phrase_table and tsv, expected one of"),
        ({}, {"source": "s"}, "found one of source and target, expected both"),
        ({}, {"target": "t"}, "found one of source and target, expected both"),
        ({"patience": 2}, {**TSV, "held_out_fraction": 0}, "found patience without pairs to validate on"),
        ({"patience_epochs": 2}, {**TSV, "held_out_fraction": 0}, "found patience_epochs without pairs to validate on"),
        ({"validation_bleu": True}, {**TSV, "held_out_fraction": 0}, "found validation_bleu without pairs to validate"),
        ({"average_rounds": 2}, {**TSV, "held_out_fraction": 0}, "found average_rounds without pairs to validate on"),
        ({"architecture": "language_model"}, {"target": "t", "source": "s"}, "found source with architecture=lang"),
        ({"architecture": "language_model"}, {"target": "t", "reverse": True}, "found reverse with architecture=lang"),
        (
            {"architecture": "language_model"},
            {"target": "t", **TSV},
            "found tsv and target, expected one of",
        ),
    ],
)
def test_settings_that_contradict_the_data_are_refused(settings, data, expected):
    with pytest.raises(ConfigurationError, match=expected):
        check_together(TrainingConfig(updates=1, **settings), TrainingData(**data))


@pytest.mark.parametrize("data", [{"tsv": "caf\udce9.tsv"}, {**TSV, "validation": ["caf\udce9"]}])
def test_a_path_that_is_not_utf8_is_refused(data):
    """settings.toml could not contain it."""
    with pytest.raises(InputError, match=r"caf\\xe9.*: found bytes that are not UTF-8 in this path; rename it"):
        check_together(TrainingConfig(updates=1), TrainingData(**data))
