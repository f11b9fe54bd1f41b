"""Settings files in JSON and TOML."""

import codecs
import json

from keras_encdec.architectures import load_preset
from keras_encdec.runtime.settings_files import read_parsed, read_toml


def test_a_byte_order_mark_is_not_part_of_the_settings(tmp_path):
    path = tmp_path / "settings"
    path.write_bytes(codecs.BOM_UTF8 + b'architecture = "cslm"\n')
    assert read_toml(path, "expected settings", "check them") == {"architecture": "cslm"}
    assert load_preset(path).architecture == "cslm"
    path.write_bytes(codecs.BOM_UTF8 + b'{"architecture": "cslm"}')
    assert read_parsed(path, json.loads) == {"architecture": "cslm"}
