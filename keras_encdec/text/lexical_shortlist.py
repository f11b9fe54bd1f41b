"""Tables of word translations, which limit the words of targets, compete with spellings, or replace unknown words."""

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.errors import EncdecWarning, InputError, quoted
from keras_encdec.formats import InputLines
from keras_encdec.formats.encodings import FileEncoding, model_words, unescape
from keras_encdec.formats.fields import finite_number
from keras_encdec.task_options import FREQUENT_WORDS, SHORTLIST_WORDS, ShortlistOptions
from keras_encdec.text.vocabulary import (
    FIRST_WORD,
    MAX_WORD_LENGTH,
    UNKNOWN,
    Vocabulary,
    characters_of,
    spelled,
    stands_for_unknown,
)

# Minimum share of the model's target words that a table should contain.
MIN_KNOWN = 0.25


class LexicalShortlist:
    """The target words that may follow in the translation of a source.

    These are the first translations of each source word in a table, the most frequent target words, the source words
    themselves (names and numbers are copied), and the words that stand for unknown words.

    Args:
        translations: dict from source word to its target words, the best first, see `read_translations`.
        vocabulary: Vocabulary of the targets.
        shortlist_words: int. Number of translations of each source word. Defaults to `100`.
        frequent_words: int. Number of most frequent target words. Defaults to `100`.

    Example:

    >>> vocabulary = Vocabulary(["the", "cat", "house"])
    >>> LexicalShortlist({"chat": ["cat"]}, vocabulary, frequent_words=1).candidates(["le", "chat"]).tolist()
    [3, 4]

    Reference:
        - Jean et al., 2015, "On Using Very Large Target Vocabulary for Neural Machine Translation" (arXiv 1412.2007),
          section 3.2
    """

    def __init__(
        self,
        translations: Mapping[str, Collection[str]],
        vocabulary: Vocabulary,
        shortlist_words: int = SHORTLIST_WORDS,
        frequent_words: int = FREQUENT_WORDS,
    ) -> None:
        words = vocabulary.words
        self._ids = {word: number for number, word in enumerate(words, start=FIRST_WORD)}
        # A vocabulary has the most frequent words first.
        frequent = range(FIRST_WORD, FIRST_WORD + min(frequent_words, len(words)))
        unknown = [number for number, word in enumerate(words, start=FIRST_WORD) if stands_for_unknown(word)]
        #: Ids that are allowed in the translation of every source, int array.
        self.always_allowed_ids = np.array([*frequent, *unknown], np.int32)
        self._always_allowed = np.zeros(FIRST_WORD + len(words), bool)
        self._always_allowed[self.always_allowed_ids] = True
        #: dict from source word to the ids of its translations, int array.
        self.translation_ids = {
            source: np.array([self._ids[word] for word in targets if word in self._ids][:shortlist_words], np.int32)
            for source, targets in translations.items()
        }

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        vocabulary: Vocabulary,
        shortlist_words: int | None = None,
        frequent_words: int | None = None,
        encoding: str | None = None,
    ) -> "LexicalShortlist":
        """Reads the table of word translations from a file, see `read_translations`; `None` stands for a default.

        Warns if the table has few of the words of the vocabulary, as a table for another language does.
        """
        translations = read_translations(path, encoding)
        listed = {word for targets in translations.values() for word in targets}
        known = sum(word in listed for word in vocabulary.words)
        if known < MIN_KNOWN * len(vocabulary.words):
            found = f"{os.fspath(path)}: found only {known:,} of the model's {len(vocabulary.words):,} target words"
            remedy = "check that the table is for the model's languages, and that its words are those of the model"
            warnings.warn(EncdecWarning(f"{found}, expected most of them; {remedy}."), stacklevel=2)
        return cls(
            translations,
            vocabulary,
            SHORTLIST_WORDS if shortlist_words is None else shortlist_words,
            FREQUENT_WORDS if frequent_words is None else frequent_words,
        )

    @classmethod
    def from_options(
        cls, options: ShortlistOptions, vocabulary: Vocabulary, encoding: str | None = None
    ) -> "LexicalShortlist | None":
        """Reads the table that options name, see `read`; returns `None` if they name none."""
        if not options.lexical_shortlist:
            return None
        sizes = options.shortlist_words, options.frequent_words
        return cls.read(options.lexical_shortlist, vocabulary, *sizes, encoding)

    def candidates(self, source_words: Sequence[str]) -> np.ndarray:
        """Returns the ids of the words that may follow: int32 array, distinct, in ascending order."""
        known = [self.translation_ids[word] for word in source_words if word in self.translation_ids]
        copied = np.array([self._ids[word] for word in source_words if word in self._ids], np.int32)
        allowed = self._always_allowed.copy()
        allowed[np.concatenate([copied, *known])] = True
        return np.flatnonzero(allowed).astype(np.int32)


def candidate_lists(candidates: Sequence[np.ndarray], number: int, ids: int, name: str = "source") -> list[np.ndarray]:
    """Checks lists of the words that may follow, and adds the special ids.

    Args:
        candidates: list of int arrays, ids.
        number: int. The number of lists that are expected.
        ids: int. Number of the model's target ids; each candidate must be below it.
        name: str. What each list is for, in the error. Defaults to "source".

    Returns:
        list of int32 arrays, see `with_special_ids`.

    Raises:
        ValueError: for another number of lists, and for ids outside the vocabulary.
    """
    if len(candidates) != number:
        found = f"found {len(candidates)} lists of candidates for {number} {name}{'' if number == 1 else 's'}"
        raise ValueError(f"{found}, expected one list for each {name}")
    lists: dict[int, np.ndarray] = {}
    for given in candidates:
        if id(given) in lists:  # equal sources may share a list
            continue
        words = np.asarray(given, np.int64).reshape(-1)
        if words.size and not 0 <= words.min() <= words.max() < ids:
            raise ValueError(f"found the candidates {words.min()} to {words.max()}, expected ids from 0 to {ids - 1}")
        lists[id(given)] = with_special_ids(words)
    return [lists[id(given)] for given in candidates]


def with_special_ids(words: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns distinct ids in ascending order, after those of padding, the unknown word and the end of sequence.

    Samplers use these ids as constants, so they have the same numbers among the candidates.
    """
    special, words = np.arange(FIRST_WORD), np.asarray(words)
    if len(words) and words[0] >= FIRST_WORD and (words[1:] > words[:-1]).all():  # sorted already
        return np.concatenate([special, words], dtype=np.int32)
    return np.union1d(special, words).astype(np.int32)


class SourceTranslations(NamedTuple):
    """Words that may stand for an unknown word in the targets of a source, instead of what the model spells.

    Attributes:
        spellings: int32 array `(words, 51)`: see `keras_encdec.text.vocabulary.spelled`.
        probabilities: float32 array `(words, source words)`: t(word | source word).
    """

    spellings: np.ndarray
    probabilities: np.ndarray


class RareTranslations:
    """Finds those translations of source words that a model spells because they are outside its shortlist.

    Words of the shortlist are left out, and so are words that the model cannot spell: those of 50 or more characters,
    and those with unknown characters. A source word without other translations may be copied, with t = 1.

    Args:
        translations: dict from source word to a dict from target word to t(target | source), see `read_translations`.
        vocabulary: Vocabulary of the targets, with characters.

    Example:

    >>> vocabulary = Vocabulary(["the"], characters=Vocabulary("acteo"))
    >>> rare = RareTranslations({"le": {"the": 0.9}, "chat": {"cat": 0.75, "the": 0.1}}, vocabulary)
    >>> rare.of_source(["le", "chat", "Tao"]).probabilities.tolist()
    [[0.0, 0.75, 0.0]]
    """

    def __init__(self, translations: Mapping[str, Mapping[str, float]], vocabulary: Vocabulary) -> None:
        assert vocabulary.characters is not None
        self._characters, self._shortlist = vocabulary.characters, frozenset(vocabulary.words)
        #: dict from source word to the translations of it that a model spells, a dict from word to probability.
        self.translations = {
            source: {word: probability for word, probability in targets.items() if self._is_spelled(word)}
            for source, targets in translations.items()
        }

    def of_source(self, source_words: Sequence[str]) -> SourceTranslations:
        """Returns the translations of the words of a source."""
        found: dict[str, dict[int, float]] = {}
        for position, source in enumerate(source_words):
            copied = {source: 1.0} if self._is_spelled(source) else {}
            for word, probability in (self.translations.get(source) or copied).items():
                found.setdefault(word, {})[position] = probability
        probabilities = np.zeros((len(found), len(source_words)), np.float32)
        for row, probability_of_position in zip(probabilities, found.values(), strict=True):
            row[list(probability_of_position)] = list(probability_of_position.values())
        return SourceTranslations(spelled(found, self._characters), probabilities)

    def _is_spelled(self, word: str) -> bool:
        if word in self._shortlist or len(word) >= MAX_WORD_LENGTH or characters_of(word) != word:
            return False
        return UNKNOWN not in self._characters.encode(word)


def read_translations(path: str | os.PathLike[str], encoding: str | None = None) -> dict[str, dict[str, float]]:
    """Reads a table of word translations, as `encdec-dictionary --shortlist` writes it.

    A line has a source word, a target word and p(target | source), separated by tabs; further columns are ignored. The
    lines may be in any order. Moses's escapes are replaced with their characters.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding, see `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an error.

    Returns:
        dict from source word to a dict from target word to probability, the most probable first; equally probable ones
        in the order of their lines.

    Raises:
        InputError: if a line does not have this form.
    """
    table: dict[str, list[tuple[float, str]]] = {}
    with InputLines(path) as lines:
        for text in FileEncoding(encoding).texts(lines):
            columns = text.split("\t")
            words = [unescape(column.strip(" ")) for column in columns[:2]]
            probability = _probability(columns)
            if probability is None or not all(words):
                expected = "expected a source word, a target word and a probability, separated by tabs"
                remedy = "write the table with encdec-dictionary --shortlist"
                raise InputError(f"found {quoted(text)}", expected, remedy, path, lines.line_number)
            source, target = words
            table.setdefault(source, []).append((-probability, target))
    read: dict[str, dict[str, float]] = {source: {} for source in table}
    for source, targets in table.items():
        for negative, target in sorted(targets, key=lambda entry: entry[0]):
            read[source].setdefault(target, -negative)
    return read


def _probability(columns: Sequence[str]) -> float | None:
    """Returns the probability in the third column; `None` if it has none."""
    if len(columns) < 3:
        return None
    try:
        value = finite_number(columns[2])
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None


def read_dictionary(
    path: str | os.PathLike[str], encoding: str | None = None, can_declare: bool = True
) -> dict[str, str]:
    """Reads a dictionary, a file with a source word, a tab and its translation on each line.

    Moses's escapes are replaced with their characters. A third column, such as a count, is ignored.

    Args:
        path: the file, plain or gzipped.
        encoding: str. The encoding, see `FileEncoding`. Defaults to `None`: UTF-8, and other bytes are an error.
        can_declare: bool. See `FileEncoding`. Defaults to `True`.

    Returns:
        dict from source word to target word.

    Raises:
        InputError: if a line does not have this form, or a source word occurs twice.
    """
    dictionary: dict[str, str] = {}
    with InputLines(path) as lines:
        for text in FileEncoding(encoding, can_declare).texts(lines):
            columns, number = text.split("\t"), lines.line_number
            words = [" ".join(model_words(column, factored=False)) for column in columns[:2]]
            if not 2 <= len(columns) <= 3 or not all(words):
                expected = "expected a source word, a tab and its translation"
                remedy = "correct the line, or write the file with encdec-dictionary, without --shortlist"
                raise InputError(f"found {quoted(text)}", expected, remedy, path, number)
            if words[0] in dictionary:
                expected = "expected one translation of each word"
                raise InputError(f"found {quoted(words[0])} twice", expected, "remove a line", path, number)
            dictionary[words[0]] = words[1]
    return dictionary
