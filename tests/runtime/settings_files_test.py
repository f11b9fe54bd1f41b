"""Settings files in JSON and TOML."""

import codecs
import json
import tomllib

from keras_encdec.architectures import load_preset
from keras_encdec.runtime.settings_files import read_parsed, read_record, read_toml, toml_lines, write_json


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


def test_text_of_any_characters_is_written_in_toml():
    values = {"phrase_table": "/disk/\U0001f4c1 données/𠀀", "text": '\x01\t\n\x7f\u2028"\\'}
    assert tomllib.loads("\n".join(toml_lines(values))) == values
