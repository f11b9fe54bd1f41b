"""Tests of reading a file in its encoding."""

import pytest

from keras_encdec.errors import InputError
from keras_encdec.formats.encodings import FileEncoding


@pytest.mark.parametrize("name", ["utf-8", "latin-1", "ISO-8859-2", "cp1252", "koi8-r", "gbk", "euc_jp"])
def test_a_declared_encoding_keeps_undecodable_bytes(name):
    encoding, data = FileEncoding(name), b"a\xff\xe9 b\x81"
    assert encoding.encode(encoding.decode(data)) == data


def test_without_a_declared_encoding_bytes_must_be_utf8():
    assert FileEncoding().decode("é".encode()) == "é"
    with pytest.raises(UnicodeDecodeError):
        FileEncoding().decode(b"\xe9")


def test_only_utf8_has_a_byte_order_mark():
    names = [None, "utf-8", "utf-8-sig", "U8", "latin-1", "gb18030"]
    assert [FileEncoding(name).is_utf8 for name in names] == [True, True, True, True, False, False]


@pytest.mark.parametrize("name", ["utf-16", "utf-16le", "utf_32", "utf-7", "cp037", "base64", "x\0y"])
def test_an_encoding_that_is_not_compatible_with_ascii_is_an_error(name):
    with pytest.raises(InputError, match="; name one that contains ASCII, such as"):
        FileEncoding(name)
