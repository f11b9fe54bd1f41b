"""Which characters may follow in a spelling."""

import unicodedata

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from keras import ops

from keras_encdec.models.spelling_rules import SpellingRules, spelling_keys
from keras_encdec.text.vocabulary import END, FIRST_WORD, UNKNOWN, Vocabulary, spelled

# Letters, marks of several classes that join letters or change places, syllables and parts of syllables of Hangul, and
# parts of a vowel of Tamil, which are marks of class 0.
CHARACTERS = Vocabulary("abeo\u1eb9\u0301\u0302\u0323\u0329\u0328\u0345\u1100\uac00\u1161\u11a8\u0bc6\u0bbe")


def allowed_next(rules, word, characters):
    """Whether each id may follow the characters of a word."""
    state = rules.first_state(1)
    for previous in (0, *characters.encode(word)[:-1]):
        state = rules.next_state(np.array([previous], np.int32), state)
    log_probs = np.zeros((1, FIRST_WORD + len(characters)), np.float32)
    return ops.convert_to_numpy(rules.apply(log_probs, np.array([previous], np.int32), state))[0] == 0


@given(st.lists(st.sampled_from(CHARACTERS.words), max_size=6).map("".join))
@example("e\u0329")  # an acute accent joins the e in front of the other mark
@example("e\u0302")  # an acute accent joins the letter with the circumflex
@example("b\u0301")  # a dot below changes places with the accent
def test_a_character_is_allowed_exactly_if_the_word_stays_in_its_normal_form(word):
    word = unicodedata.normalize("NFC", word)
    word = "".join(character for character in word if character in CHARACTERS.words)
    if unicodedata.normalize("NFC", word) != word:
        return  # it was, before characters outside the vocabulary were removed
    allowed = allowed_next(SpellingRules(CHARACTERS), word, CHARACTERS)
    expected = [unicodedata.normalize("NFC", word + each) == word + each for each in CHARACTERS.words]
    assert allowed[FIRST_WORD:].tolist() == expected
    assert not allowed[UNKNOWN] and allowed[END] == bool(word)


def test_the_rules_forbid_the_end_of_a_word_of_the_shortlist():
    characters = Vocabulary("abc")
    rules = SpellingRules(characters, ["ab", "abc"])
    for word, may_end in {"a": True, "ab": False, "abc": False, "ac": True, "abca": True}.items():
        assert allowed_next(rules, word, characters)[END] == may_end, word
    assert allowed_next(SpellingRules(characters), "ab", characters)[END]


def test_a_word_that_cannot_be_spelled_forbids_no_other():
    """A word of the shortlist with unknown characters, that is not in NFC, or that is cut after 50 characters."""
    characters = Vocabulary("10nave\xe9\u0301")
    shortlist = ["10\u20ac", "na\xefve", "e\u0301", "a" * 51]
    rules = SpellingRules(characters, shortlist)
    for word in ("10", "nave", "\xe9", "a" * 50):
        assert allowed_next(rules, word, characters)[END], word


@given(st.sets(st.text("abcdefgh", min_size=1, max_size=49), max_size=20))
def test_the_key_of_a_word_is_the_last_key_of_its_characters(words):
    characters, rules = Vocabulary("abcdefgh"), SpellingRules()
    keys = set()
    for word in words:
        state = rules.first_state(1)
        for previous in (0, *characters.encode(word)[:-1]):
            state = rules.next_state(np.array([previous], np.int32), state)
        keys.add(int(ops.convert_to_numpy(state["key"])[0]))
    assert spelling_keys(spelled(words, characters)).tolist() == sorted(keys)
