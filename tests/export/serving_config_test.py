"""Options of an export, and those of them that are the served model's."""

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.export.serving_config import (
    BATCHING_PARAMETERS,
    ExportOptions,
    ServingConfig,
    write_batching_parameters,
)


def test_serving_config_has_only_the_limits_and_search_options():
    options = ExportOptions(version=3, model_name="phrases", raw_text=True, max_tokens=20, beam_size=2)
    assert type(options.serving_config) is ServingConfig
    assert options.serving_config == ServingConfig(max_tokens=20, beam_size=2)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"model_name": ""}, "found an empty model_name, expected a name"),
        ({"model_name": "en/fr"}, "found model_name=en/fr, expected a name without / and :, for the paths of REST"),
        ({"version": 2**63}, "found version=9223372036854775808, expected a whole number, 1 to 9223372036854775807"),
        ({"dictionary": "words"}, "found dictionary without replace_unknown, expected both"),
        ({"suppress_unknown": True, "replace_unknown": True}, "found replace_unknown with suppress_unknown"),
        ({"suppress_unknown": True, "word_translations": "t"}, "found word_translations with suppress_unknown, with"),
    ],
)
def test_options_that_cannot_be_used_are_refused(values, message):
    with pytest.raises(ConfigurationError, match=message):
        ExportOptions(**values)


def test_the_parameters_of_batching_that_a_user_has_changed_stay(tmp_path):
    write_batching_parameters(tmp_path)
    path = tmp_path / BATCHING_PARAMETERS
    assert "max_batch_size { value: 256 }" in path.read_text()
    path.write_text("max_batch_size { value: 8 }")
    write_batching_parameters(tmp_path)
    assert path.read_text() == "max_batch_size { value: 8 }"
