"""Writes the sections about gates, attention, and the words that a model spelled by their characters."""

import collections
import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.gates import END_OF_SEQUENCE, PhraseGates, UnitGates
from keras_encdec.analysis.page.figures import draw_attention, draw_gate_values, draw_gates, draw_units, rendered
from keras_encdec.analysis.page.page import Section, Table, fill, isolated
from keras_encdec.data.prepared_pairs import SUMMARY, PreparedPairs
from keras_encdec.decoding.text_generator import TextHypothesis
from keras_encdec.model_directory import ModelDirectory
from keras_encdec.text.vocabulary import characters_of, spelled_word
from keras_encdec.trainers.training_files import PREPARED

# Numbers of units in each table of units, of example words of a unit, and of spelled words that the page shows.
ENDS, EXAMPLES, SHOWN_SPELLED = 8, 5, 100


def gate_section(shown: Sequence[PhraseGates], corpus: Sequence[PhraseGates]) -> Section:
    """Writes heat maps of the gates over the shown phrases, and the statistics of each unit over a corpus."""
    units = UnitGates.of(corpus)
    order = np.argsort(-units.kept, kind="stable")
    statistics = {
        "gates_units": rendered(
            draw_units(units),
            "How much each unit keeps and how often it resets",
            "Each point is a unit: how much of its state it keeps at a word, and how often it resets.",
        ),
        "gates_values": rendered(
            draw_gate_values(corpus), "How often the gates have each value", "The values of all units at all words."
        ),
    }
    phrases = {
        f"gates_{number}": rendered(
            draw_gates(gates, order),
            f"Update and reset gates over the phrase: {' '.join(gates.words)}",
            " ".join(gates.words[:-1]),
        )
        for number, gates in enumerate(shown, start=1)
    }
    rows = [
        (unit, round(float(kept), 5), round(float(resets), 5))
        for unit, (kept, resets) in enumerate(zip(units.kept, units.resets, strict=True))
    ]
    varies = np.ptp(units.kept) and np.ptp(units.resets)
    body = fill(
        "gates",
        words=units.tokens,
        sources=len(corpus),
        r=float(np.corrcoef(units.kept, units.resets)[0, 1]) if varies else None,
        statistics=statistics.values(),
        tables=[
            _unit_table("The units that keep longest", units, units.keep_longest(ENDS)),
            _unit_table("The units that reset most often", units, units.reset_most(ENDS)),
        ],
        shown=phrases.values(),
    )
    tables = {"gates": Table("Units", ("unit", "mean z", "share of words with r < 0.5"), rows)}
    return Section("gates", "Gates (section 2.3)", body, tables, statistics | phrases)


def _unit_table(caption: str, units: UnitGates, chosen: np.ndarray) -> Table:
    header = "unit", "mean z", "resets (%)", "changes most at", "resets most at"
    rows = [
        (
            f"{unit}",
            f"{units.kept[unit]:.3f}",
            f"{100 * units.resets[unit]:.1f}",
            " · ".join(units.most_updating_words(unit, EXAMPLES)),
            " · ".join(units.most_resetting_words(unit, EXAMPLES)),
        )
        for unit in chosen.tolist()
    ]
    return Table(caption, header, rows)


def attention_section(translations: Sequence[TextHypothesis]) -> Section:
    """Writes which words of the source the model attends to at each word of translations that have their attention."""
    pictures, rows = {}, []
    for number, best in enumerate(translations, start=1):
        assert best.attention is not None
        described = " → ".join(isolated(" ".join(words)) for words in (best.source_words, best.words))
        figure = draw_attention(best.source_words, best.words, best.attention)
        pictures[f"attention_{number}"] = rendered(figure, f"Attention: {described}", described)
        for word, weights in zip((*best.words, END_OF_SEQUENCE), best.attention, strict=True):
            for read, weight in zip((*best.source_words, END_OF_SEQUENCE), weights, strict=True):
                rows.append((number, word, read, round(float(weight), 5)))
    body = fill("attention", drawings=pictures.values())
    table = Table("Attention weights", ("sentence", "target token", "source token", "weight"), rows)
    return Section("attention", "Attention", body, {"attention": table}, pictures)


@dataclasses.dataclass(frozen=True)
class SpelledWord:
    """A word that a model spelled.

    Attributes:
        word: str.
        count: int. Number of times that it was spelled.
        in_references: int. Number of these cases in which the reference of the sentence contains it.
        was_trained: bool. Whether the word occurs in a training target; `None` if the training data are no longer
            there.
    """

    word: str
    count: int
    in_references: int
    was_trained: bool | None


def spelled_words(
    directory: ModelDirectory, translations: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> list[SpelledWord]:
    """Collects the words of translations that a model spelled: those outside its shortlist.

    Those that occur in no training target come first, then the most frequent ones.
    """
    known, trained = set(directory.target_vocabulary.words), _trained_words(directory)
    counts: collections.Counter[str] = collections.Counter()
    found: collections.Counter[str] = collections.Counter()
    for translation, reference in zip(translations, references, strict=True):
        reference_words = set(map(characters_of, reference))
        spelled = [word for word in translation if word not in known]
        counts.update(spelled)
        found.update(word for word in spelled if word in reference_words)
    words = [
        SpelledWord(word, count, found[word], None if trained is None else word in trained)
        for word, count in counts.items()
    ]
    return sorted(words, key=lambda word: (word.was_trained is not False, -word.count, word.word))


def _trained_words(directory: ModelDirectory) -> set[str] | None:
    """Returns the rare words of the training targets, as spelled; `None` if the training data are not available."""
    folder, characters = directory.path / PREPARED, directory.target_vocabulary.characters
    if characters is None or not os.path.exists(folder / SUMMARY):
        return None
    spellings = PreparedPairs(folder).spellings.get("target")
    return None if spellings is None else {spelled_word(row.tolist(), characters) for row in spellings}


def spelled_words_section(words: Sequence[SpelledWord]) -> Section:
    """Writes which words a model spelled, and which of them occur in no training target."""
    header = "word", "times", "in the reference", "in the training targets"
    seen = {True: "yes", False: "no", None: "training data not available"}
    rows = [(word.word, word.count, word.in_references, seen[word.was_trained]) for word in words]
    new = [word for word in words if word.was_trained is False]
    body = fill(
        "spelled_words",
        words=sum(word.count for word in words),
        distinct=len(words),
        found=sum(word.in_references for word in words),
        is_known=all(word.was_trained is not None for word in words),
        new=sum(word.count for word in new),
        new_found=sum(word.in_references for word in new),
        table_=Table("Spelled words, new words first", header, rows[:SHOWN_SPELLED]),
    )
    title = "Words that were spelled"
    return Section("spelled-words", title, body, {"spelled_words": Table(title, header, rows)})
