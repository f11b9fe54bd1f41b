"""Tests of reading plain pairs of text, from one file or two."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_pairs import pairs, write

from keras_encdec.errors import InputError
from keras_encdec.formats import ParallelReader, SentenceReader, TsvReader, append_columns

KEEP = "give --on_error=keep to write such lines with a neutral score, or unchanged if they have no field for it"


def test_the_first_two_columns_are_read(tmp_path):
    path = write(tmp_path, "pairs.tsv", b"a b\tc\r\n\td\ta|||b\t5\r\ne\t\n \t \nf\xc2\xa0g\th")
    with TsvReader(path) as reader:
        records = list(reader)
    assert [(record.source, record.target) for record in records] == [
        ("a b", "c"),
        ("", "d"),
        ("e", ""),
        (" ", " "),
        ("f\xa0g", "h"),
    ]
    assert [record.raw for record in records] == path.read_bytes().split(b"\n")
    assert reader.lines.line_number == 5 and reader.malformed == 0


def test_sentences_are_targets_without_a_source(tmp_path):
    path = write(tmp_path, "corpus", b"\xef\xbb\xbfa b\r\n\nc\td\nx\xe9")
    with SentenceReader(path, on_error="keep") as reader:
        records = list(reader)
    assert [(record.source, record.target) for record in records] == [("", "a b"), ("", ""), ("", "c\td"), ("", "")]
    assert [record.raw for record in records] == path.read_bytes().split(b"\n")
    assert reader.malformed == 1 and f"{path}, line 4: found bytes that are not UTF-8" in records[3].problem
    with pytest.raises(InputError, match="line 4: found bytes"):
        pairs(SentenceReader(path))
    assert pairs(SentenceReader(path, encoding="latin-1"))[3] == ("", "xé")


def test_a_line_without_a_tab_stops_or_is_kept(tmp_path):
    path = write(tmp_path, "pairs.tsv", b"a\tb\n\nc d\ne\tf\n")
    with pytest.raises(InputError) as caught:
        pairs(TsvReader(path))
    sentence = (
        f"{path}, line 2: found no tab, expected source and target separated by a tab; "
        f"repair or remove the line, or {KEEP}."
    )
    assert str(caught.value) == sentence
    with TsvReader(path, on_error="keep") as reader:
        records = list(reader)
    assert [record.problem is None for record in records] == [True, False, False, True]
    assert records[1].problem == sentence and reader.malformed == 2
    with pytest.raises(
        InputError, match="line 1: .*; check that the file is TSV; without a source, as for a language m"
    ):
        pairs(TsvReader(write(tmp_path, "text", b"c d\n")))


def test_a_byte_order_mark_is_not_part_of_the_first_word(tmp_path):
    mark = b"\xef\xbb\xbf"
    path = write(tmp_path, "pairs.tsv", mark + b"a\tb\n" + mark + b"c\td\n")
    with TsvReader(path) as reader:
        records = list(reader)
    assert [record.source for record in records] == ["a", "\ufeffc"]
    assert records[0].raw == mark + b"a\tb"
    marked = write(tmp_path, "marked", mark + b"a\n")
    assert pairs(ParallelReader(marked, marked)) == [("a", "a")]
    assert pairs(ParallelReader(marked, marked, encoding="latin-1")) == [("ï»¿a", "ï»¿a")]


@pytest.mark.parametrize(
    ("raw", "written"),
    [(b"a\tb", b"a\tb\t-1.5\t0"), (b"a\tb\tc\r", b"a\tb\tc\t-1.5\t0\r"), (b"\t", b"\t\t-1.5\t0")],
)
def test_columns_are_added_before_the_carriage_return(raw, written):
    assert append_columns(raw, ["-1.5", "0"]) == written


LINES = st.lists(st.sampled_from(["", "a", "a b", "é", "\x85", "\u2028", "x\ty"])).map("".join)


@given(st.lists(st.tuples(LINES, LINES), min_size=1), st.sampled_from(["\n", "\r\n"]))
def test_parallel_lines_never_shift(tmp_path_factory, expected, end):
    folder = tmp_path_factory.getbasetemp()
    source = write(folder, "source", "".join(pair[0] + end for pair in expected).encode())
    target = write(folder, "target.gz", gzip.compress("".join(pair[1] + end for pair in expected).encode()))
    with ParallelReader(source, target) as reader:
        records = list(reader)
    assert [(record.source, record.target) for record in records] == expected
    # A line of tab-separated columns, which a tab within a text would break.
    assert [record.raw for record in records] == [
        ("\t".join(side.replace("\t", " ") for side in pair) + end).encode().removesuffix(b"\n") for pair in expected
    ]


@pytest.mark.parametrize("counts", [(5, 3), (3, 5), (4, 3)])
def test_files_of_different_lengths_are_reported(tmp_path, counts):
    source, target = (write(tmp_path, name, b"x\n" * n) for name, n in zip("st", counts, strict=True))
    seen = []
    with pytest.raises(InputError) as caught, ParallelReader(source, target) as reader:
        seen.extend(reader)
    assert len(seen) == 3
    assert str(caught.value) == (
        f"{source}: found {counts[0]} lines, and {counts[1]} lines in {target}, expected the same number; "
        "make the n-th line of the targets the translation of the n-th line of the sources."
    )
