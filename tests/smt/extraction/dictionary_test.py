"""Dictionaries of words from aligned text."""

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.runtime.progress import Progress
from keras_encdec.smt import DictionaryEntry, dictionary_entries, write_dictionary
from keras_encdec.text.lexical_shortlist import read_dictionary, read_translations

PAIRS = [("b a", "x y"), ("a b", "z x"), ("a", "y"), ("a b", "z x"), ("a", ""), ("c", "w")]
LINKS = ["0-0 1-1", "0-0 1-1", "0-0", "0-0 1-1 0-1", "", "0-0"]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "tsv").write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    (tmp_path / "source").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (tmp_path / "target").write_text("".join(f"{target}\n" for _, target in PAIRS))
    (tmp_path / "links").write_text("".join(f"{links}\n" for links in LINKS))
    return tmp_path


def test_the_most_frequent_translation_is_taken_and_the_first_of_equally_frequent_ones():
    pairs = [(s.split(), t.split(), [(0, 0)]) for s, t in (("b", "x"), ("a", "z"), ("a", "y"), ("a", "y"), ("a", "z"))]
    expected = [DictionaryEntry("a", "y", 2), DictionaryEntry("b", "x", 1)]
    assert dictionary_entries(pairs, min_count=1) == dictionary_entries(pairs[::-1], min_count=1) == expected
    assert dictionary_entries(iter(pairs)) == expected[:1]
    assert dictionary_entries([(["a"], ["x"], [])]) == []


@pytest.mark.parametrize("options", [{}, {"shortlist": True}])
def test_progress_says_what_is_done_in_each_step(files, out, options):
    shown = []

    class Shown(Progress):
        def close(self):
            shown.append((self.count, self.unit, self.lines.size_done == self.lines.size))

    summary = write_dictionary(files / "tsv", out / "words", progress=Shown, **options)
    assert shown == [(6, "pairs", True), (10, "rounds of alignment", True)] and summary.pairs == 6
    write_dictionary(files / "tsv", out / "words", alignment=files / "links", progress=Shown, **options)
    assert shown[2:] == [(6, "pairs", True)]


def test_a_byte_order_mark_is_not_part_of_the_first_link(files, out):
    (files / "links").write_text("\ufeff" + (files / "links").read_text())
    write_dictionary(files / "tsv", out / "words", alignment=files / "links")
    assert (out / "words").read_text() == "a\ty\t2\nb\tx\t3\n"


def test_read_dictionary_reads_what_is_written(files, out):
    summary = write_dictionary(files / "tsv", out / "words", alignment=files / "links")
    # a: y and z twice each, x once; c is too rare.
    assert (out / "words").read_text() == "a\ty\t2\nb\tx\t3\n"
    assert read_dictionary(out / "words") == {"a": "y", "b": "x"}
    assert (summary.lines, summary.pairs, summary.malformed) == (2, 6, 0)
    assert str(summary).startswith("2 entries from 6 pairs in ")
    write_dictionary(
        files / "target",
        out / "words.gz",
        format="parallel",
        source=files / "source",
        alignment=files / "links",
        min_count=1,
        reverse=True,
    )
    assert read_dictionary(out / "words.gz") == {"w": "c", "x": "b", "y": "a", "z": "a"}


def test_an_empty_dictionary_names_the_minimum_that_no_word_reaches(files, out):
    (files / "links").write_text("0-0\n" + "\n" * 5)
    for options, start in (
        ({}, "0 entries (no word is aligned to its translation 2 times; give a smaller --min_count) from 6 pairs in "),
        (
            {"shortlist": True, "min_count": 3},
            "0 entries (no word is aligned to its translation 3 times; give a smaller --min_count)",
        ),
        ({"shortlist": True}, "1 entry from 6 pairs in "),
    ):
        assert str(write_dictionary(files / "tsv", out / "words", alignment=files / "links", **options)).startswith(
            start
        )


@pytest.mark.parametrize("shortlist", [False, True])
def test_a_word_that_looks_like_an_escape_is_read_as_it_was(tmp_path, shortlist):
    """As Moses's tokenizer writes the HTML entity of a quotation mark, beside a real one."""
    pairs = ["&amp;quot;\t&amp;lt;\n", "&quot;\t&apos;\n", "R&amp;D\tR&amp;D\n"]
    (tmp_path / "tsv").write_text("".join(3 * pairs))
    (tmp_path / "links").write_text(9 * "0-0\n")
    write_dictionary(tmp_path / "tsv", tmp_path / "words", alignment=tmp_path / "links", shortlist=shortlist)
    expected = {"&quot;": "&lt;", '"': "'", "R&D": "R&D"}
    if shortlist:
        table = read_translations(tmp_path / "words")
        assert table == {source: {target: 1.0} for source, target in expected.items()}
    else:
        assert read_dictionary(tmp_path / "words") == expected
    assert "\nR&D\tR&D\t" in "\n" + (tmp_path / "words").read_text()


def test_a_shortlist_has_the_probabilities_of_the_links_of_both_words(files, out):
    write_dictionary(files / "tsv", out / "words", alignment=files / "links", shortlist=True)
    # b: x three times, y never. a: y twice, x and z ...; the links of the table above, counted by hand.
    lines = (out / "words").read_text().splitlines()
    assert lines == ["a\ty\t0.4\t1", "a\tz\t0.4\t1", "a\tx\t0.2\t0.25", "b\tx\t1\t0.75", "c\tw\t1\t1"]
    write_dictionary(files / "tsv", out / "one", alignment=files / "links", shortlist=True, shortlist_words=1)
    assert (out / "one").read_text().splitlines() == [lines[0], *lines[3:]]
    write_dictionary(files / "tsv", out / "two", alignment=files / "links", shortlist=True, min_count=2)
    assert (out / "two").read_text().splitlines() == [*lines[:2], lines[3]]
    table = {source: list(targets) for source, targets in read_translations(out / "words").items()}
    assert table == {"a": ["y", "z", "x"], "b": ["x"], "c": ["w"]}
    with pytest.raises(ConfigurationError, match="shortlist_words without shortlist"):
        write_dictionary(files / "tsv", out / "none", alignment=files / "links", shortlist_words=1)


def test_malformed_lines_are_left_out_with_their_links(files, out):
    (files / "tsv").write_bytes(b"a\tx\nno tab\nb\ty\n")
    (files / "links").write_text("0-0\n5-5\n0-0\n")
    summary = write_dictionary(files / "tsv", out / "words", alignment=files / "links", min_count=1, on_error="keep")
    assert "2 entries from 2 pairs, 1 malformed left out" in str(summary)
    with pytest.raises(InputError, match="tsv, line 2: found no tab"):
        write_dictionary(files / "tsv", out / "other", alignment=files / "links")
    assert [path.name for path in out.iterdir()] == ["words"]


def test_text_is_read_as_the_model_reads_it(files, out):
    (files / "tsv").write_bytes("L'\xe9t\xe9\tThe\u00a0summer!\n".encode("latin-1") * 2)
    (files / "links").write_text("2-1\n0-0\n")
    given = {"alignment": files / "links", "encoding": "latin-1", "min_count": 1}
    write_dictionary(files / "tsv", out / "words", tokenize=True, lowercase=True, **given)
    assert (out / "words").read_bytes() == "l\tthe\t1\n\xe9t\xe9\tsummer\t1\n".encode("latin-1")
    assert read_dictionary(out / "words", "latin-1") == {"l": "the", "\xe9t\xe9": "summer"}
    (files / "links").write_text("0-0\n0-0\n")
    write_dictionary(files / "tsv", out / "words", **given)
    assert read_dictionary(out / "words", "latin-1") == {"L'\xe9t\xe9": "The\xa0summer!"}
    (files / "tsv").write_bytes("\xbd\thalf\n".encode("latin-1") * 2)
    (files / "links").write_text("1-0\n1-0\n")
    with pytest.raises(InputError, match="tsv: found '\u2044' in the tokenized text, which the encoding latin"):
        write_dictionary(files / "tsv", out / "words", tokenize=True, **given)


def test_unusable_input_leaves_the_output_unchanged(files, out):
    (out / "words").write_text("before")
    (files / "links").write_text("0-0\n0-0\n")
    with pytest.raises(InputError, match="links: found 2 lines, and 6 lines in .*tsv"):
        write_dictionary(files / "tsv", out / "words", alignment=files / "links")
    with pytest.raises(ConfigurationError, match="found one file for two purposes"):
        write_dictionary(files / "tsv", files / "links", alignment=files / "links")
    with pytest.raises(ConfigurationError, match="found min_count=0, expected a whole number, 1 or more"):
        write_dictionary(files / "tsv", out / "words", min_count=0)
    assert [path.name for path in out.iterdir()] == ["words"] and (out / "words").read_text() == "before"


def test_without_an_alignment_the_pairs_are_aligned(files, out):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    (files / "tsv").write_text("the house\tla maison\nthe\tla\nhouse\tmaison\n\trien\n" * 5)
    write_dictionary(files / "tsv", out / "words")
    assert read_dictionary(out / "words") == {"house": "maison", "the": "la"}


def test_pairs_too_long_to_align_get_no_links_and_a_warning(files, out):
    pytest.importorskip("thot", reason="sil-thot is not installed")
    (files / "tsv").write_text("the house\tla maison\nthe\tla\nhouse\tmaison\n" * 5 + "a " * 1025 + "\tune\n")
    with pytest.warns(EncdecWarning, match="found 1 pair with a side of more than 1,024 words, which get no links"):
        write_dictionary(files / "tsv", out / "words", min_count=1)
    assert read_dictionary(out / "words") == {"house": "maison", "the": "la"}


def test_a_repeated_link_counts_once(files, out):
    (files / "links").write_text("".join(f"{links} {links}\n" for links in LINKS))
    write_dictionary(files / "tsv", out / "words", alignment=files / "links")
    assert (out / "words").read_text() == "a\ty\t2\nb\tx\t3\n"


def test_a_long_link_is_not_quoted_whole(files, out):
    (files / "links").write_text(f"0-{'1' * 5000}\n")
    message = r'links, line 1: found the link "0-1{78}\.\.\." \(5,002 characters\), expected'
    with pytest.raises(InputError, match=message) as caught:
        write_dictionary(files / "tsv", out / "words", alignment=files / "links")
    assert len(str(caught.value)) < 400 + len(str(files))
