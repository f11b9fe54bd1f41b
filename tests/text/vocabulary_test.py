"""Tests of vocabularies and their files."""

import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keras_encdec.errors import InputError
from keras_encdec.text import END, FIRST_WORD, PADDING, UNKNOWN, Vocabulary, most_frequent

# A lone surrogate stands for a byte that was not decoded.
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\n \t") | st.sampled_from("\udc80\udcff")
WORDS = st.lists(st.text(CHARACTERS, min_size=1), min_size=1, unique=True)


@given(WORDS)
def test_words_come_back_from_the_file(tmp_path_factory, words):
    assume(not all(word.endswith("\r") for word in words))
    path = tmp_path_factory.getbasetemp() / "words.vocab"
    Vocabulary(words).save(path)
    assert Vocabulary.load(path).words == words
    assert path.read_bytes().count(b"\n") == len(words)


@given(WORDS)
def test_ids_follow_the_order_of_the_words(words):
    vocabulary = Vocabulary(words)
    assert len(vocabulary) == len(words)
    ids = vocabulary.encode(words)
    assert ids == [*range(FIRST_WORD, FIRST_WORD + len(words)), END]
    assert vocabulary.decode(ids) == words


def test_special_ids_have_no_spelling():
    assert (PADDING, UNKNOWN, END) == (0, 1, 2)
    vocabulary = Vocabulary(["<unk>", "</s>", "<pad>"])
    assert vocabulary.encode(["</s>", "<s>", "<unk>"]) == [4, UNKNOWN, 3, END]
    assert vocabulary.encode([]) == [END]
    assert vocabulary.decode([5, UNKNOWN, END, PADDING]) == ["<pad>", "<unk>"]
    assert vocabulary.decode([UNKNOWN], unknown="?") == ["?"]


@pytest.mark.parametrize("wrong", [-1, 5])
def test_the_word_of_another_id_is_refused(wrong):
    with pytest.raises(ValueError, match=f"found the id {wrong}, expected ids from 0 to 4"):
        Vocabulary(["le", "chat"]).decode([3, wrong])


def test_undecoded_bytes_are_written_as_they_were(tmp_path):
    Vocabulary(["caf\udce9", "é", "\u2028", "a\rb", "fin\r"]).save(tmp_path / "v")
    assert (tmp_path / "v").read_bytes() == b"caf\xe9\n\xc3\xa9\n\xe2\x80\xa8\na\rb\nfin\r\n"
    assert Vocabulary.load(tmp_path / "v").words == ["caf\udce9", "é", "\u2028", "a\rb", "fin\r"]


def test_a_file_with_carriage_returns_and_no_last_line_feed_is_read(tmp_path):
    (tmp_path / "v").write_bytes(b"le\r\nchat\r\n")
    assert Vocabulary.load(tmp_path / "v").words == ["le", "chat"]
    (tmp_path / "v").write_bytes(b"le\nchat")
    assert Vocabulary.load(tmp_path / "v").words == ["le", "chat"]


@pytest.mark.parametrize(
    "content",
    [b"le\nchat\n", b"\xef\xbb\xbfle\nchat\n", b"le\r\nchat\r\n", b"\xef\xbb\xbfle\r\nchat", b"le\nchat\r\n"],
)
def test_a_word_list_may_have_carriage_returns_and_a_byte_order_mark(tmp_path, content):
    (tmp_path / "v").write_bytes(content)
    assert Vocabulary.from_word_list(tmp_path / "v").words == ["le", "chat"]


def test_a_word_list_may_begin_with_the_byte_order_mark_as_a_word(tmp_path):
    Vocabulary(["\ufeff", "le"]).save(tmp_path / "v")
    assert Vocabulary.from_word_list(tmp_path / "v").words == ["\ufeff", "le"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"le\n\nchat\n", 'line 2: found "", expected one word per line; correct the line.'),
        (b"le\nle chat\n", 'line 2: found "le chat", expected one word per line; correct the line.'),
        (b"le\t7\n", 'line 1: found "le\\t7", expected one word per line; correct the line.'),
        (b"le\nun\nle\n", 'line 3: found "le" again, as on line 1, expected distinct words; remove one of the two.'),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, sentence):
    (tmp_path / "v").write_bytes(content)
    for read in (Vocabulary.load, Vocabulary.from_word_list):
        with pytest.raises(InputError) as caught:
            read(tmp_path / "v")
        assert str(caught.value) == f"{tmp_path}/v, {sentence}"


def test_a_word_of_two_lines_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="expected words without line feeds"):
        Vocabulary(["word", "two\nlines"]).save(tmp_path / "words")
    assert not os.listdir(tmp_path)


def test_a_missing_or_empty_file_is_named(tmp_path):
    with pytest.raises(InputError, match="v: found no such file"):
        Vocabulary.load(tmp_path / "v")
    (tmp_path / "v").touch()
    with pytest.raises(InputError, match="v: found an empty file"):
        Vocabulary.load(tmp_path / "v")


def test_a_text_is_not_taken_for_its_letters_unless_the_vocabulary_is_one_of_characters():
    assert Vocabulary("ab").encode("ba") == [4, 3, 2]
    with pytest.raises(ValueError, match="found the text 'le chat', expected a list of words"):
        Vocabulary(["le", "chat", "a"]).encode("le chat")


def test_repeated_words_are_refused():
    with pytest.raises(ValueError, match="found 'le' twice, expected distinct words"):
        Vocabulary(["le", "chat", "le"])


def test_words_with_capital_letters_are_counted_if_the_vocabulary_has_none():
    words = ["Le", "le", "CHAT", "Chien", "12"]
    assert Vocabulary(["le", "chat", "|"]).known_in_lower_case(words) == 2
    assert Vocabulary(["le", "chat", "Paris"]).known_in_lower_case(words) == 0


def test_the_most_frequent_words_are_kept_and_ties_do_not_depend_on_order():
    counts = {"b": 2, "é": 2, "a": 2, "rare": 1, "the": 9}
    assert most_frequent(counts, 3).words == ["the", "a", "b"]
    assert most_frequent(dict(reversed(counts.items())), 4).words == ["the", "a", "b", "é"]
    assert most_frequent(counts, 100).words == ["the", "a", "b", "é", "rare"]


def test_the_spelling_of_the_unknown_word_is_the_unknown_word():
    vocabulary = most_frequent({"<unk>": 9, "a": 2, "b": 1}, 2)
    assert vocabulary.words == ["a", "b"] and vocabulary.encode(["<unk>"]) == [UNKNOWN, END]


def test_reserved_words_count_towards_the_size():
    counts = {"a": 3, "b": 2, "c": 1}
    assert most_frequent(counts, 4, ["x", "b"]).words == ["a", "c", "x", "b"]
    assert most_frequent(counts, 1, ["x", "y"]).words == ["x", "y"]


@given(st.dictionaries(st.text(min_size=1), st.integers(1, 5), min_size=1), st.integers(1, 10))
def test_no_word_left_out_is_more_frequent_than_one_kept(counts, size):
    words = most_frequent(counts, size).words
    counts.pop("<unk>", None)
    assert len(words) == min(size, len(counts))
    assert min(counts[word] for word in words) >= max((counts[w] for w in counts.keys() - set(words)), default=0)
