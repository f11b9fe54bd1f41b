"""What all readers of records do."""

import pytest
from read_pairs import pairs, write

from keras_encdec.errors import InputError
from keras_encdec.formats import NBestReader, ParallelReader, PhraseTableReader, TsvReader

KEEP = "give --on_error=keep to write such lines with a neutral score, or unchanged if they have no field for it"


def test_bytes_that_are_not_utf8_ask_for_the_encoding(tmp_path):
    path = write(tmp_path, "pairs.tsv", b"a\tb\nx\t\xe9t\xe9\n")
    with pytest.raises(InputError) as caught:
        pairs(TsvReader(path))
    assert str(caught.value) == (
        f'{path}, line 2: found bytes that are not UTF-8 (0xe9 in "\\xe9t\\xe9"), expected UTF-8; '
        f"name the file's encoding, such as --encoding=latin-1, or {KEEP}."
    )
    assert pairs(TsvReader(path, encoding="latin-1"))[1] == ("x", "été")
    assert pairs(TsvReader(path, on_error="keep"))[1] == ("", "")
    source = write(tmp_path, "source", b"a\nx\n")
    target = write(tmp_path, "target", b"b\n\xe9t\xe9\n")
    with pytest.raises(InputError, match=f"{target}, line 2: found bytes that are not UTF-8"):
        pairs(ParallelReader(source, target))
    assert pairs(ParallelReader(source, target, on_error="keep")) == [("a", "b"), ("", "")]


def test_a_missing_file_is_reported_at_once(tmp_path):
    path = write(tmp_path, "source", b"x\n")
    for reader in (
        lambda: TsvReader(tmp_path / "missing"),
        lambda: ParallelReader(path, tmp_path / "missing"),
        lambda: ParallelReader(tmp_path / "missing", path),
    ):
        with pytest.raises(InputError, match="missing: found no such file or directory"):
            reader()
    with pytest.raises(InputError, match="found the unknown encoding 'latin2000'"):
        TsvReader(path, encoding="latin2000")
    with pytest.raises(ValueError, match="on_error='skip'"):
        TsvReader(path, on_error="skip")


@pytest.mark.parametrize(("reader", "name"), [(NBestReader, "an n-best list"), (PhraseTableReader, "a phrase table")])
def test_a_first_line_of_one_field_is_probably_in_another_file(tmp_path, reader, name):
    path = write(tmp_path, "text", b"the house\n")
    with pytest.raises(InputError, match=f"line 1: found 1 field, .*; check that the file is {name}, or {KEEP}"):
        list(reader(path, on_error="stop"))
    path = write(tmp_path, "text", b"the ||| house\n")
    with pytest.raises(InputError, match="line 1: found 2 fields, .*; repair or remove the line, or"):
        list(reader(path, on_error="stop"))


@pytest.mark.parametrize(
    ("reader", "text", "name"),
    [
        (NBestReader, b"the ||| le ||| 0.5 ||| 0-0\n", 'the id "the", .*; check that the file is an n-best list'),
        (PhraseTableReader, b"0 ||| le ||| LM0= -1 ||| -1\n", 'the score "LM0=", .*; check that the file is a phr'),
    ],
)
def test_a_first_line_of_the_other_kind_is_probably_in_another_file(tmp_path, reader, text, name):
    path = write(tmp_path, "text", text)
    with pytest.raises(InputError, match=f"line 1: found {name}"):
        list(reader(path, on_error="stop"))
