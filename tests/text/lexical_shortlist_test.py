"""Tables of word translations, the words into which a source may be translated, and dictionaries."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_encdec.errors import EncdecWarning, InputError
from keras_encdec.text import Vocabulary
from keras_encdec.text.lexical_shortlist import LexicalShortlist, RareTranslations, read_dictionary, read_translations
from keras_encdec.text.vocabulary import spelled_word

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
    assert {source: list(targets.items()) for source, targets in table.items()} == {
        source: [(target, -negative) for negative, target in sorted(targets, key=lambda entry: entry[0])]
        for source, targets in expected.items()
    }


def test_rare_translations_are_words_that_the_model_can_spell_and_copies():
    long, joined = "a" * 50, "e\u0301"
    vocabulary = Vocabulary(["the", "cat"], characters=Vocabulary("acestx\u0301"))
    table = {
        "chat": {"cat": 0.5, "cats": 0.25, "dog": 0.125, long: 0.0625, joined: 0.03125},
        "chats": {"cats": 0.75},
        "le": {"the": 1.0},
    }
    spellings, probabilities = RareTranslations(table, vocabulary).of_source(["chat", "chats", "le", "xa", "xo", "cat"])
    # "le" cannot be spelled, nor can "xo"; "cat" is a word of the shortlist.
    assert [spelled_word(row, vocabulary.characters) for row in spellings] == ["cats", "xa"]
    assert probabilities.tolist() == [[0.25, 0.75, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0]]
    spellings, probabilities = RareTranslations(table, vocabulary).of_source(["le"])
    assert spellings.shape == (0, 51) and probabilities.shape == (0, 1)


def test_a_table_of_another_language_causes_a_warning(tmp_path, recwarn):
    (tmp_path / "table").write_text("le\tthe\t0.5\nchat\tcat\t0.5\n")
    LexicalShortlist.read(tmp_path / "table", Vocabulary(["the", *map(str, range(3))]))
    assert not recwarn
    with pytest.warns(EncdecWarning, match="table: found only 1 of the model's 5 target words, expected most of them"):
        LexicalShortlist.read(tmp_path / "table", Vocabulary(["the", *map(str, range(4))]))


@pytest.mark.parametrize(
    "line",
    ["a b 1", "a\tb", "a\tb\tc", "a\tb\t2", "\tb\t1", " \tb\t1", "a\tb\tnan", "a\tb\t0_1", ""],
)
def test_a_line_of_another_form_is_an_error_with_its_number(tmp_path, line):
    (tmp_path / "table").write_text(f"x\ty\t0.5\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_translations(tmp_path / "table")
    assert caught.value.line == 2
    assert "expected a source word, a target word and a probability" in str(caught.value)


def test_equally_probable_translations_keep_their_order(tmp_path):
    (tmp_path / "table").write_text("a\ty\t0.25\na\tx\t0.25\na\tz\t0.5\n")
    assert list(read_translations(tmp_path / "table")["a"]) == ["z", "y", "x"]


def test_spaces_around_the_words_of_a_table_are_not_part_of_them(tmp_path):
    (tmp_path / "table").write_text("a \t b\t0.5\na\t\xa0\t0.25\n", "utf-8")
    assert read_translations(tmp_path / "table") == {"a": {"b": 0.5, "\xa0": 0.25}}


def test_lines_of_two_columns_or_three_are_read(tmp_path):
    (tmp_path / "words").write_bytes("\ufeffpomme\tapple\t17\r\nn\u00b0\tno.\n".encode())
    assert read_dictionary(tmp_path / "words") == {"pomme": "apple", "n\u00b0": "no."}


def test_an_encoding_can_be_declared_and_only_spaces_are_stripped(tmp_path):
    (tmp_path / "words").write_bytes("caf\xe9 \t black  coffee\n10\xa0000\t\xa0\n".encode("latin-1"))
    assert read_dictionary(tmp_path / "words", "latin-1") == {"caf\xe9": "black coffee", "10\xa0000": "\xa0"}


@pytest.mark.parametrize(
    "line, message",
    [
        (b"pomme apple", 'found "pomme apple", expected a source word, a tab and its translation'),
        (b"pomme\tapple\t1\t2", r'found "pomme\tapple\t1\t2", expected'),
        (b"pomme\tapple\t0.5\t1", "or write the file with encdec-dictionary, without --shortlist."),
        (b"pomme\t ", "expected a source word, a tab and its translation"),
        (b"", 'found "", expected'),
        (b"chat\tcats", 'found "chat" twice'),
        (b"caf\xe9\tcoffee", "found bytes that are not UTF-8 (0xe9 in"),
    ],
)
def test_a_malformed_line_is_reported(tmp_path, line, message):
    (tmp_path / "words").write_bytes(b"chat\tcat\n" + line + b"\n")
    with pytest.raises(InputError, match="words, line 2: ") as error:
        read_dictionary(tmp_path / "words")
    assert message in str(error.value)


def test_escapes_are_removed(tmp_path):
    (tmp_path / "words").write_text("R&amp;D\tl&apos;R&amp;D\n")
    assert read_dictionary(tmp_path / "words") == {"R&D": "l'R&D"}


def test_the_error_names_the_encoding_flag_only_if_the_user_can_declare_it(tmp_path):
    (tmp_path / "words").write_bytes(b"caf\xe9\tcoffee\n")
    with pytest.raises(InputError, match="words, line 1: found bytes .*; convert the file to UTF-8.$"):
        read_dictionary(tmp_path / "words", can_declare=False)
