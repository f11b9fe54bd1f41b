"""Columns that are added to the lines of each format."""

import os
import re

import pytest

from keras_encdec.data import open_pairs
from keras_encdec.errors import InputError
from keras_encdec.formats import (
    Column,
    ColumnKind,
    PairRecord,
    pair_format,
)
from keras_encdec.formats.pair_format import BEGINNING

FILES = {
    "phrase_table": (b"l&apos;|D ||| the|D ||| 0.5 ||| x\nbad\nle ||| cat ||| 1", None),
    "tsv": (b"l&apos;|D\tthe|D\nbad\nle\tcat\tx", None),
    "parallel": (b"the|D\ncaf\xe9\ncat", b"l&apos;|D\nbad\nle"),
    "nbest": (b"0 ||| the|D  ||| F= 1 ||| 1\n0 ||| b ||| F= 1\n1 ||| cat  ||| F= 1 ||| 1 ||| 0-0", b"l&apos;|D\nle"),
}
WRITTEN = {
    "phrase_table": b"l&apos;|D ||| the|D ||| 0.5 0.606531 1 ||| x\nbad\nle ||| cat ||| 1 0.22313 20.0855369",
    "tsv": b"l&apos;|D\tthe|D\t-0.500000\t0\t-0.250000 -0.250000\nbad\nle\tcat\tx\t-1.500000\t3\t-1.500000",
    "parallel": b"l&apos;|D\tthe|D\t-0.500000\t0\t-0.250000 -0.250000\nbad\tcaf\xe9\t0\t0\t\n"
    b"le\tcat\t-1.500000\t3\t-1.500000",
    "nbest": b"0 ||| the|D  ||| F= 1 L= -0.500000 U= 0 ||| 1\n0 ||| b ||| F= 1 L= 0 U= 0\n"
    b"1 ||| cat  ||| F= 1 L= -1.500000 U= 3 ||| 1 ||| 0-0",
}


def write(folder, data, source):
    """Writes the files of a format, and returns their paths; the second is `None` where there is none."""
    (folder / "file").write_bytes(data)
    if source is not None:
        (folder / "source").write_bytes(source)
    return folder / "file", None if source is None else folder / "source"


@pytest.mark.parametrize("name", FILES)
def test_columns_are_added_to_the_lines_that_were_read(tmp_path, name):
    known, (path, source_path) = pair_format(name), write(tmp_path, *FILES[name])
    columns = [Column(ColumnKind.LOG_PROB, "L"), Column(ColumnKind.COUNT, "U")]
    values = [[-0.5, -1.5], [0, 3]]
    if ColumnKind.TOKEN_LOG_PROBS in known.column_texts:
        columns.append(Column(ColumnKind.TOKEN_LOG_PROBS, "T"))
        values.append([[-0.25, -0.25], [-1.5]])
    with known.open_reader(path, source_path, on_error="keep") as reader:
        records = list(known.check_columns(reader, columns))
    assert [(record.source, record.target) for record in records] == [("l&apos;|D", "the|D"), ("", ""), ("le", "cat")]
    assert [record.problem is None for record in records] == [True, False, True]
    assert b"\n".join(known.with_columns(records, columns, values)) == WRITTEN[name]
    with known.open_reader(path, source_path) as reader, pytest.raises(InputError, match="line 2: "):
        list(reader)
    with open_pairs(path, name, source_path=source_path, on_error="keep") as (pairs, _):
        bar = "" if known.is_factored else "|D"
        assert list(pairs) == [([f"l'{bar}"], [f"the{bar}"]), (["le"], ["cat"])]


@pytest.mark.parametrize("name", FILES)
def test_an_error_in_the_first_lines_is_found(tmp_path, name):
    known, (path, source_path) = pair_format(name), write(tmp_path, *FILES[name])
    with pytest.raises(InputError, match="line 2: .* to do that"):
        known.check_beginning(path, source_path, kept="do that")
    known.check_beginning(path, source_path, on_error="keep")


def test_neither_later_lines_nor_pipes_are_read_before_the_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_text("not standard input")
    (tmp_path / "file").write_text("a\tb\n" * BEGINNING + "bad\n")
    pair_format("tsv").check_beginning(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "-", "s3://bucket/file"):
        pair_format("tsv").check_beginning(path)


def test_an_nbest_list_that_has_the_feature_is_refused(tmp_path):
    known, (path, source_path) = pair_format("nbest"), write(tmp_path, b"0 ||| a ||| F= 1 ||| 1", b"a")
    with known.open_reader(path, source_path) as reader, pytest.raises(InputError, match="found the feature F, exp"):
        list(known.check_columns(reader, [Column(ColumnKind.LOG_PROB, "F")]))


def test_an_id_without_a_source_sentence_is_refused(tmp_path):
    path, source_path = write(tmp_path, b"3 ||| a ||| F= 1 ||| 1", b"a\nb\n")
    with pair_format("nbest").open_reader(path, source_path, on_error="keep") as reader:
        with pytest.raises(InputError, match=re.escape(f"{path}, line 1: found the id 3, expected at most 1, as")):
            list(reader)


@pytest.mark.parametrize("name", ["parallel", "nbest"])
def test_a_format_with_a_file_of_sources_is_not_opened_without_it(name, tmp_path):
    (tmp_path / "file").write_bytes(FILES[name][0])
    expected = f"found format={name} without source, expected the file of the sources"
    with pytest.raises(ValueError, match=expected), open_pairs(tmp_path / "file", name):
        pass


def test_no_columns_can_be_added_to_sentences(tmp_path):
    known = pair_format("sentences")
    assert not known.column_texts
    with pytest.raises(NotImplementedError, match="no columns can be added to lines of the format 'sentences'"):
        known.add_columns(PairRecord(b"a", "", "a", None), [], [])
