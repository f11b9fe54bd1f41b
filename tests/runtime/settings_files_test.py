"""Settings files in JSON and TOML."""

import codecs
import json

from keras_encdec.architectures import load_preset
from keras_encdec.runtime.settings_files import read_parsed, read_record, read_toml, write_json


def test_a_byte_order_mark_is_not_part_of_the_settings(tmp_path):
    path = tmp_path / "settings"
    path.write_bytes(codecs.BOM_UTF8 + b'architecture = "cslm"\n')
    assert read_toml(path, "expected settings", "check them") == {"architecture": "cslm"}
    assert load_preset(path).architecture == "cslm"
    path.write_bytes(codecs.BOM_UTF8 + b'{"architecture": "cslm"}')
    assert read_parsed(path, json.loads) == {"architecture": "cslm"}


def test_names_that_are_not_utf8_are_kept_in_json(tmp_path):
    written = {"file": "caf\udce9", "system": "é \u2028"}
    write_json(tmp_path / "json", written)
    assert read_record(tmp_path / "json") == written
    assert '"é \u2028"' in (tmp_path / "json").read_text(encoding="utf-8")
