"""Writes the sections about words that a model reads or spells by their characters."""

import collections
import dataclasses
import os
from collections.abc import Sequence

from keras_encdec.analysis.page.page import Section, Table, fill
from keras_encdec.analysis.vectors import Vectors
from keras_encdec.data.prepare import SUMMARY, PreparedPairs
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import characters_of, spelled_word

# Numbers of rare words, of their neighbours, and of spelt words that the page shows.
SHOWN_RARE, NEIGHBOURS, SHOWN_SPELT = 20, 5, 100


@dataclasses.dataclass(frozen=True)
class SpeltWord:
    """A word that a model spelt.

    Attributes:
        word: str.
        count: int. Number of times that it was spelt.
        in_references: int. Number of these times that the reference of the sentence has the word.
        was_trained: bool. Whether a target of the training has the word; `None` if the training data are gone.
    """

    word: str
    count: int
    in_references: int
    was_trained: bool | None


def spelt_words(
    directory: ModelDirectory, translations: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> list[SpeltWord]:
    """Collects the words of translations that a model spelt: those outside its shortlist.

    Args:
        directory: ModelDirectory of a model that spells words.
        translations, references: list of n lists of words.

    Returns:
        list of SpeltWord: first those that no target of the training has, then the most frequent ones.
    """
    known, trained = set(directory.target_vocabulary.words), _trained_words(directory)
    counts: collections.Counter[str] = collections.Counter()
    found: collections.Counter[str] = collections.Counter()
    for translation, reference in zip(translations, references, strict=True):
        there = set(map(characters_of, reference))
        spelt = [word for word in translation if word not in known]
        counts.update(spelt)
        found.update(word for word in spelt if word in there)
    words = [
        SpeltWord(word, count, found[word], None if trained is None else word in trained)
        for word, count in counts.items()
    ]
    return sorted(words, key=lambda word: (word.was_trained is not False, -word.count, word.word))


def _trained_words(directory: ModelDirectory) -> set[str] | None:
    """Returns the rare words of the training targets, as they are spelt; `None` if the training data are gone."""
    folder, characters = directory.path / "prepared", directory.target_vocabulary.characters
    if characters is None or not os.path.exists(folder / SUMMARY):
        return None
    spellings = PreparedPairs(folder).spellings.get("target")
    return None if spellings is None else {spelled_word(row.tolist(), characters) for row in spellings}


def spelt_words_section(words: Sequence[SpeltWord]) -> Section:
    """Writes which words a model spelt, and which of them no target of its training has.

    Args:
        words: list of SpeltWord, in order.
    """
    header = "word", "times", "in the reference", "in the training targets"
    seen = {True: "yes", False: "no", None: "training data are gone"}
    rows = [(word.word, word.count, word.in_references, seen[word.was_trained]) for word in words]
    new = [word for word in words if word.was_trained is False]
    body = fill(
        "sections.html",
        "spelt_words",
        words=sum(word.count for word in words),
        distinct=len(words),
        found=sum(word.in_references for word in words),
        is_known=all(word.was_trained is not None for word in words),
        new=sum(word.count for word in new),
        new_found=sum(word.in_references for word in new),
        table_=Table("Spelt words, those that are new first", header, rows[:SHOWN_SPELT]),
    )
    title = "Words that were spelt"
    return Section("spelt-words", title, body, {"spelt_words": Table(title, header, rows)})


def rare_words_section(vectors: Vectors, rare: int) -> Section:
    """Writes the nearest neighbours of rare words by their vectors, which are computed from characters.

    Args:
        vectors: Vectors of rare words, and then of frequent words.
        rare: int. Number of rare words.
    """
    indices, similarities = vectors.neighbours(NEIGHBOURS)
    rows = [
        (vectors.names[row], rank, vectors.names[i], "yes" if i < rare else "no", round(float(similarity), 4))
        for row in range(rare)
        for rank, (i, similarity) in enumerate(zip(indices[row], similarities[row], strict=True), start=1)
    ]
    shown = [
        (vectors.names[row], " · ".join(vectors.names[i] for i in indices[row])) for row in range(min(rare, SHOWN_RARE))
    ]
    table = Table("Rare words and the words nearest to them", ("rare word", "nearest words"), shown)
    body = fill("sections.html", "rare_words", rare=rare, frequent=len(vectors.names) - rare, table_=table)
    header = "rare word", "rank", "neighbour", "is rare", "cosine"
    title = "Rare words by their characters"
    return Section("rare-words", title, body, {"rare_words": Table(title, header, rows)})
