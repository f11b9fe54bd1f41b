"""Tables of word translations, and the words into which a source may be translated."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.errors import InputError
from keras_encdec.text import Vocabulary
from keras_encdec.text.lexical_shortlist import LexicalShortlist, read_translations

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=6)


def test_the_candidates_are_translations_frequent_words_copies_and_unknown_words():
    vocabulary = Vocabulary(["the", "a", "cat", "Tom", "unkpos_0", "dog", "cats"])  # ids from 3
    table = {"chat": ["cat", "rare", "cats", "dog"], "le": ["the"]}
    shortlist = LexicalShortlist(table, vocabulary, shortlist_words=2, frequent_words=1)
    assert shortlist.candidates(["chat"]).tolist() == [3, 5, 7, 9]  # the, cat, unkpos_0, cats: "rare" is not counted
    assert shortlist.candidates(["le", "Tom", "Tom"]).tolist() == [3, 6, 7]
    assert shortlist.candidates([]).tolist() == [3, 7]
    none = LexicalShortlist({}, Vocabulary(["a"]), frequent_words=0)
    assert none.candidates(["x"]).tolist() == []
    assert LexicalShortlist({}, Vocabulary(["a"]), frequent_words=9).candidates([]).tolist() == [3]


@given(st.lists(st.tuples(WORDS, WORDS, st.floats(0, 1)), min_size=1, max_size=20, unique_by=lambda row: row[:2]))
def test_translations_are_read_by_probability(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("table") / "table.gz"
    escaped = [[part.replace("&", "&amp;") for part in row[:2]] for row in rows]
    lines = [f"{s}\t{t}\t{row[2]!r}\t0.5\n" for (s, t), row in zip(escaped, rows, strict=True)]
    path.write_bytes(gzip.compress("".join(lines).encode()))
    table = read_translations(path)
    expected = {}
    for source, target, probability in rows:
        expected.setdefault(source, []).append((-probability, target))
    assert table == {
        source: [target for _, target in sorted(targets, key=lambda entry: entry[0])]
        for source, targets in expected.items()
    }


@pytest.mark.parametrize("line", ["a b 0.5", "a\tb", "a\tb\tc", "a\tb\t2", "\tb\t0.5", "a\tb\tnan", ""])
def test_a_line_of_another_form_is_an_error_with_its_number(tmp_path, line):
    (tmp_path / "table").write_text(f"x\ty\t0.5\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_translations(tmp_path / "table")
    assert caught.value.line == 2
    assert "expected a source word, a target word and a probability" in str(caught.value)
