"""Computes Tables 2 and 3 of the paper, and writes their sections of the report."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from keras_encdec.analysis.page.page import Section, Table, fill, number_text
from keras_encdec.analysis.table_sample import Preferences, TablePair, plain_text
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.text_generator import TextGenerator, TextHypothesis
from keras_encdec.formats import surface
from keras_encdec.scoring.pair_scorer import WordPair
from keras_encdec.scoring.text_scorer import TextScorer

KINDS = {
    "given": "The phrases that were asked for",
    "frequent": "Long, frequent source phrases",
    "rare": "Long, rare source phrases",
    "long": "Long source phrases (the table has no counts)",
}
TOP = 3
BEST_SAMPLES = 5


def best_targets(scorer: TextScorer, phrases: Sequence[Sequence[TablePair]]) -> list[Preferences]:
    """Scores all targets of source phrases.

    Args:
        scorer: TextScorer of the model.
        phrases: list of lists of TablePair, each with all lines of a source, see `TableSample.choose_phrases`.

    Returns:
        list of Preferences. Their `by_table` and `by_model` are the columns of Table 2.
    """
    pairs = [pair for lines in phrases for pair in lines]
    log_probs = iter(scorer.score(pair_words(scorer, pairs)))
    return [
        Preferences(
            plain_text(lines[0].source),
            [(plain_text(pair.target), pair.probability, float(np.exp(next(log_probs)))) for pair in lines],
            lines[0].occurrences,
        )
        for lines in phrases
    ]


def pair_words(scorer: TextScorer, pairs: Sequence[TablePair]) -> list[WordPair]:
    """Splits lines of a table into the words that the model reads: list of pairs of lists of str."""
    return scorer.all_words([(pair.source, pair.target) for pair in pairs], factored=True)


@dataclasses.dataclass(frozen=True)
class SampledTargets:
    """Samples of targets of a source phrase.

    Attributes:
        source: str. The phrase, as given.
        samples: int. Number of targets drawn.
        distinct: list of TextHypothesis, the distinct targets with their counts, the highest ln p first.
    """

    source: str
    samples: int
    distinct: list[TextHypothesis]


def sampled_targets(
    generator: TextGenerator, sources: Sequence[str], samples: int = 50, seed: int = 0
) -> list[SampledTargets]:
    """Draws targets word by word from the model's probabilities.

    Args:
        generator: TextGenerator of the model.
        sources: list of str, source phrases as in a phrase table.
        samples: int. Number of samples of each phrase. Defaults to `50`, as in the paper.
        seed: int. Random seed. Defaults to `0`.

    Returns:
        list of SampledTargets, in the order of the phrases.
    """
    drawn = generator.generate([surface(source) for source in sources], RandomSampler(samples, seed=seed))
    return [SampledTargets(source, samples, list(best)) for source, best in zip(sources, drawn, strict=True)]


def best_targets_section(phrases: Mapping[str, Sequence[Preferences]]) -> Section:
    """Writes Table 2: the top three targets by the table and by the model.

    Args:
        phrases: dict of kind, "frequent", "rare", "long" or "given", to list of Preferences.
    """
    rows, shown = [], {}
    for kind, preferences in phrases.items():
        shown[KINDS[kind]] = []
        for phrase in preferences:
            by_table, by_model = phrase.by_table(TOP), phrase.by_model(TOP)
            table = {target: probability for target, probability, _ in phrase.options}
            model = {target: probability for target, _, probability in phrase.options}
            columns = _with_notes(by_table, table), _with_notes(by_model, model)
            shown[KINDS[kind]].append((phrase.source, phrase.occurrences, columns))
            for rank, (left, right) in enumerate(zip(by_table, by_model, strict=True), start=1):
                row = (phrase.source, kind, phrase.occurrences, rank, left, table[left], right, model[right])
                rows.append(row)
    header = "source", "kind", "occurrences", "rank", "by table", "p by table", "by model", "p by model"
    best = Table("The best targets by the phrase table and by the model", header, rows)
    body = fill("sections.html", "best_targets", kinds=shown)
    return Section("best-targets", "Best targets (Table 2)", body, {"best_targets": best})


def _with_notes(targets: Sequence[str], probabilities: Mapping[str, float]) -> list[tuple[str, str]]:
    return [(target, number_text(probabilities[target])) for target in targets]


def samples_section(phrases: Mapping[str, Sequence[SampledTargets]]) -> Section:
    """Writes Table 3: the best of the samples drawn from the model.

    Args:
        phrases: dict of kind, "frequent", "rare", "long" or "given", to list of SampledTargets.
    """
    rows, shown, samples = [], {}, 0
    for kind, drawn in phrases.items():
        shown[KINDS[kind]] = []
        for phrase in drawn:
            samples, source, best = phrase.samples, plain_text(phrase.source), []
            for rank, sample in enumerate(phrase.distinct, start=1):
                target = " ".join(sample.words)
                rows.append((source, kind, rank, target, sample.count, sample.log_prob))
                if rank <= BEST_SAMPLES:
                    best.append((target, f"{sample.count} ×, ln p {number_text(sample.log_prob)}"))
            shown[KINDS[kind]].append((source, 0, [best]))
    header = "source", "kind", "rank", "sample", "count", "ln p (nats)"
    table = Table("Distinct samples of each source phrase", header, rows)
    body = fill("sections.html", "samples", kinds=shown, samples=samples)
    return Section("samples", "Samples (Table 3)", body, {"samples": table})
