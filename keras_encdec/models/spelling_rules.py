"""Which characters may follow in the spelling of a word, so that the word is read as it was spelled."""

import unicodedata
from collections.abc import Iterable

import numpy as np
from keras import ops

from keras_encdec.backend.types import State, Tensor
from keras_encdec.text.vocabulary import END, FIRST_WORD, UNKNOWN, Vocabulary, characters_of, spelled

# The key of the characters c_1 .. c_n is the sum of c_i M^(n - i), modulo 2^32, for this M. One number per row thus
# tells a search whether its characters spell a word of the shortlist. Among 2^32 keys, another word rarely has the same
# one.
_KEY_FACTOR = 1_000_003
# A character that NFC may join with a character before it, or move before it, is a mark, or one of these vowels and
# final consonants of Hangul.
_JAMO = {*map(chr, range(0x1161, 0x1176)), *map(chr, range(0x11A8, 0x11C3))}


class SpellingRules:
    """Forbids spellings that cannot be written: sets ln p to -inf for each character that would lead to one.

    These characters are the unknown character; the end of a word that has no characters yet; the end of a word of the
    shortlist, whose probability is not that of its characters; and a character that Unicode's normal form C would
    change together with those before it. Words are read in this form: an acute accent after the letter e, for example,
    is read as é.

    The state of a search has two further numbers per row: the key of its characters, by which words of the shortlist
    are found, and its last character that is not a combining mark.

    Args:
        characters: Vocabulary of characters. Defaults to `None`: no characters are known, so that only the first two
            rules hold.
        shortlist: iterable of str, the words of the shortlist. Defaults to none.
    """

    def __init__(self, characters: Vocabulary | None = None, shortlist: Iterable[str] = ()) -> None:
        words = [*"\0" * FIRST_WORD, *(characters.words if characters is not None else ())]
        # The other words of the shortlist cannot be spelled, and their keys would be those of other words.
        spellable = [word for word in shortlist if characters_of(word) == word]
        spellings = spelled(spellable, characters) if characters is not None else np.zeros((0, 1), np.int32)
        spellings = spellings[~(spellings == UNKNOWN).any(axis=1)]
        self._shortlist_keys = spelling_keys(spellings)
        # The canonical combining class of a character is 0 unless it is a mark that may change places with others.
        classes = np.array([unicodedata.combining(word[0]) for word in words])
        self._is_starter = classes == 0
        marks = [i for i, word in enumerate(words) if unicodedata.category(word[0])[0] == "M" or word in _JAMO]
        # The last column is that of all characters that never change.
        self._column = np.full(len(words), len(marks), np.int32)
        self._column[marks] = np.arange(len(marks))
        self._changes, self._may_join = (np.zeros((len(words), len(marks) + 1), bool) for _ in range(2))
        for column, mark in enumerate(marks):
            for row, word in enumerate(words[FIRST_WORD:], start=FIRST_WORD):
                pair = word + words[mark]
                self._changes[row, column] = unicodedata.normalize("NFC", pair) != pair
            # After marks of lower classes, a mark still joins the last character that is not a mark.
            self._may_join[:, column] = (classes > 0) & (classes < classes[mark])

    @staticmethod
    def first_state(rows: Tensor | int) -> State:
        """Returns the state before the first character, int32 tensors `(rows,)`."""
        return {"key": ops.zeros((rows,), "int32"), "starter": ops.zeros((rows,), "int32")}

    def next_state(self, previous: Tensor, state: State) -> State:
        """Returns the state after the previous character.

        Args:
            previous: integer tensor `(rows,)`: the previous character; 0 at the beginning of a word.
            state: dict of int32 tensors `(rows,)`, of which only "key" and "starter" are read.
        """
        previous = ops.cast(previous, "int32")
        is_starter = ops.take(ops.convert_to_tensor(self._is_starter), previous, axis=0) if self._has_marks else True
        return {
            "key": state["key"] * _KEY_FACTOR + previous,
            "starter": ops.where(is_starter, previous, state["starter"]),
        }

    def apply(self, log_probs: Tensor, previous: Tensor, state: State) -> Tensor:
        """Sets ln p of the characters that may not follow to -inf.

        Args:
            log_probs: float tensor `(rows, characters)`: ln p of the next character.
            previous: integer tensor `(rows,)`: the previous character; 0 at the beginning of a word.
            state: dict of int32 tensors `(rows,)`, from `next_state`.

        Returns:
            float tensor `(rows, characters)`.
        """
        number = ops.arange(log_probs.shape[-1])[None]
        cannot_end = ops.equal(previous, 0)
        if len(self._shortlist_keys):
            keys = ops.convert_to_tensor(self._shortlist_keys, "int32")
            place = ops.minimum(ops.cast(ops.searchsorted(keys, state["key"]), "int32"), len(self._shortlist_keys) - 1)
            cannot_end = ops.logical_or(cannot_end, ops.equal(ops.take(keys, place, axis=0), state["key"]))
        forbidden = ops.logical_or(number == UNKNOWN, ops.logical_and(number == END, cannot_end[:, None]))
        if self._has_marks:
            changes, may_join = map(ops.convert_to_tensor, (self._changes, self._may_join))
            joins = ops.logical_and(ops.take(may_join, previous, axis=0), ops.take(changes, state["starter"], axis=0))
            changed = ops.logical_or(ops.take(changes, previous, axis=0), joins)
            forbidden = ops.logical_or(forbidden, ops.take(changed, self._column, axis=1))
        return ops.where(forbidden, ops.cast(-np.inf, log_probs.dtype), log_probs)

    @property
    def _has_marks(self) -> bool:
        return self._changes.shape[1] > 1


def spelling_keys(spellings: np.ndarray) -> np.ndarray:
    """Returns the keys of words, see `SpellingRules`.

    Args:
        spellings: int array `(words, time)`: see `keras_encdec.text.vocabulary.spelled`.

    Returns:
        int32 array, in ascending order.
    """
    keys = np.zeros(len(spellings), np.uint32)
    for characters in spellings.T.astype(np.uint32):
        keys = np.where(characters > END, keys * np.uint32(_KEY_FACTOR) + characters, keys)
    return np.unique(keys.view(np.int32))
