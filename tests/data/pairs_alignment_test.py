"""Pairs and the links between their words, read from files or made by the aligner."""

import gzip
import sys

import pytest

from keras_encdec.data.pairs import open_aligned_pairs
from keras_encdec.errors import InputError
from keras_encdec.text import Tokenizer

PAIRS = [("a b", "x y z"), ("c", "z"), ("d e f", "x")]
LINKS = ["0-0 1-2", "", "2-0"]
EXPECTED = [
    (["a", "b"], ["x", "y", "z"], [(0, 0), (1, 2)]),
    (["c"], ["z"], []),
    (["d", "e", "f"], ["x"], [(2, 0)]),
]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    (tmp_path / "source").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (tmp_path / "target").write_text("".join(f"{target}\n" for _, target in PAIRS))
    (tmp_path / "links").write_text("".join(f"{links}\n" for links in LINKS))
    lines = [f"{s} ||| {t} ||| 0.5 ||| {links} ||| 1 1\n" for (s, t), links in zip(PAIRS, LINKS, strict=True)]
    (tmp_path / "table").write_text("".join(lines))
    return tmp_path


def read(*arguments, **options):
    with open_aligned_pairs(*arguments, **options) as (pairs, reader):
        return list(pairs)


def test_links_are_those_of_the_file_of_a_table_or_of_either_side(files):
    assert read(files / "tsv", "tsv", alignment=files / "links") == EXPECTED
    assert read(files / "table") == EXPECTED
    parallel = {"source_path": files / "source", "alignment": files / "links"}
    assert read(files / "target", "parallel", **parallel) == EXPECTED
    turned = [(target, source, [(j, i) for i, j in links]) for source, target, links in EXPECTED]
    assert read(files / "target", "parallel", **parallel, reverse=True) == turned
    (files / "links").write_bytes(gzip.compress(b"1-0\r\n0-0\n\t0-0  1-0 \n"))  # instead of those of the table
    links = [links for *_, links in read(files / "table", alignment=files / "links")]
    assert links == [[(1, 0)], [(0, 0)], [(0, 0), (1, 0)]]


@pytest.mark.parametrize("raw", [False, True])
def test_a_malformed_line_takes_its_links_with_it(files, raw):
    tokenizer = Tokenizer() if raw else None
    (files / "tsv").write_text("a b\tx y z\nno tab\nd e f\tx\n")
    (files / "links").write_text("0-0 1-2\n7-7\n2-0\n")
    result = read(files / "tsv", "tsv", alignment=files / "links", tokenizer=tokenizer, on_error="keep")
    assert result == [EXPECTED[0], EXPECTED[2]]


@pytest.mark.parametrize(
    "links, line, message",
    [
        ("0-0\n0-1\n\n", 2, 'found the link "0-1", expected positions in a source of 1 and a target of 1 word'),
        ("0-0\n\n3-0\n", 3, 'found the link "3-0", expected positions in a source of 3 and a target of 1 word'),
        ("0-0\n0\n\n", 2, 'found the link "0", expected a source and a target position, from 0, such as 2-1'),
        ("0-0 -1-0\n\n\n", 1, 'found the link "-1-0"'),
        ("0-0 0-0-0\n\n\n", 1, 'found the link "0-0-0"'),
        ("0-0 0-1:0.5\n\n\n", 1, 'found the link "0-1:0.5"'),
        (f"0-{'9' * 5000}\n\n\n", 1, 'found the link "0-99'),
        ("0-0\n", None, "found 1 line, and 3 lines in {}/tsv, expected the same number"),
        ("0-0\n\n2-0\n\n", None, "found 4 lines, and 3 lines in {}/tsv"),
        ("", None, "found an empty file"),
    ],
)
def test_links_that_do_not_fit_are_an_error_at_their_line(files, links, line, message):
    (files / "links").write_text(links)
    place = f"{files}/links" + (f", line {line}: " if line else ": ")
    with pytest.raises(InputError) as error:
        read(files / "tsv", "tsv", alignment=files / "links")
    assert str(error.value).startswith(place + message.format(files)), error.value


def test_a_table_without_links_is_an_error_at_its_line(files):
    (files / "table").write_text("a ||| x ||| 0.5 ||| 0-0\nb ||| y ||| 0.5\n")
    with pytest.raises(InputError, match=r"table, line 2: found no word alignment.*; give .*--alignment"):
        read(files / "table")


def test_other_pairs_are_aligned(files):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    pairs = [("a", "x"), ("b", "y"), ("a b", "x y"), ("", "y"), ("b a", "y x"), ("a", ""), ("a a a", "x x x")] * 5
    (files / "tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    result = read(files / "tsv", "tsv", max_length=2)
    assert [(" ".join(source), " ".join(target)) for source, target, _ in result] == pairs
    assert [links for *_, links in result[:7]] == [[(0, 0)], [(0, 0)], [(0, 0), (1, 1)], [], [(0, 0), (1, 1)], [], []]
    for side, name in enumerate(("source", "target")):
        (files / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    assert read(files / "target", "parallel", source_path=files / "source", max_length=2) == result


def test_without_the_aligner_nothing_is_read(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "thot", None)
    with pytest.raises(ImportError, match=r"sil-thot.*keras-encdec\[smt\]"):
        read(files / "missing", "tsv")
    assert read(files / "tsv", "tsv", alignment=files / "links") == EXPECTED
