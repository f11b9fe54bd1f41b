"""Computes Tables 2 and 3 of the paper, and writes the sections about targets, scores and BLEU."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from keras_encdec.analysis.page.figures import (
    MODEL_LABEL,
    TABLE_LABEL,
    draw_binned_scores,
    draw_bleu,
    draw_scores,
    rendered,
)
from keras_encdec.analysis.page.page import Scatter, Section, Table, fill, number_text
from keras_encdec.analysis.score_statistics import LengthBleu, ScoreComparison, scores_by_frequency, scores_by_length
from keras_encdec.analysis.table_sample import Preferences, TablePair, plain_text
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.text_generator import TextGenerator, TextHypothesis
from keras_encdec.formats import model_words
from keras_encdec.formats.fields import check_texts
from keras_encdec.formats.pair_format import WordPair
from keras_encdec.runtime.progress import counted
from keras_encdec.scoring.text_scorer import TextScorer

DIFFERING = 15


def score_section(comparison: ScoreComparison, num_pairs: int) -> Section:
    """Writes Figure 3, the model's ln p against the table's for a sample of its pairs, and those that differ most."""
    title, shown = "Scores (Figure 3)", len(comparison.pairs)
    if not shown:
        return Section("scores", title, fill("no_scores", zero=comparison.left_out))
    sources = [plain_text(pair.source) for pair in comparison.pairs]
    targets = [plain_text(pair.target) for pair in comparison.pairs]
    hidden = comparison.out_of_view
    scatter = Scatter(
        "scores",
        "The model's ln p of each phrase pair against the phrase table's",
        "Each point is a phrase pair. Where points overlap, a stronger colour means more pairs."
        + f" Outside this view: {counted(hidden, 'pairs')} of very low ln p; All shows them." * (hidden > 0),
        np.stack([comparison.table, comparison.model], axis=1),
        [sources, targets],
        "pairs",
        [(TABLE_LABEL, "table"), (MODEL_LABEL, "model")],
        view=comparison.view,
    )
    header = "source", "target", "ln p by table (nats)", "ln p by model (nats)"
    above, below = (
        [(sources[i], targets[i], float(comparison.table[i]), float(comparison.model[i])) for i in indices]
        for indices in comparison.most_differing(DIFFERING)
    )
    more = Table("Pairs that are more probable by the model than by the table", header, above)
    less = Table("Pairs that are less probable by the model than by the table", header, below)
    body = fill(
        "scores",
        shown=shown,
        num_pairs=num_pairs,
        zero=comparison.left_out,
        r=_text(comparison.correlation),
        rho=_text(comparison.rank_correlation),
        figure=scatter,
        differing=[table for table in (more, less) if table.rows],
    )
    numbers = zip(sources, targets, np.round(comparison.table, 5), np.round(comparison.model, 5), strict=True)
    tables = {"scores": Table("Scores of pairs", header, list(numbers)), "more_probable": more, "less_probable": less}
    return Section("scores", title, body, tables, {"scores": rendered(draw_scores(comparison))})


def _text(correlation: float) -> str:
    return "undefined" if math.isnan(correlation) else number_text(correlation)


def length_section(
    name: str, what: str, lengths: Sequence[tuple[int, int]], scores: np.ndarray, occurrences: Sequence[float] = ()
) -> Section:
    """Writes ln p per token by source length, target length and frequency.

    Args:
        name: str. Name of the section and of its files.
        what: str. What the pairs are, such as "pairs of the table".
        lengths: list of n pairs of int, source and target words.
        scores: float array `(n,)`, the model's ln p of each pair.
        occurrences: list of n float, the count of each source. Defaults to none: unknown.
    """
    sources, targets = np.array(lengths, int).reshape(-1, 2).T
    tokens = scores / (targets + 1)  # + 1 counts the end of sequence
    measures = {
        "source length": (scores_by_length(sources, tokens), "source length (words)"),
        "target length": (scores_by_length(targets, tokens), "target length (words)"),
    }
    seen = np.asarray(occurrences, float)
    if len(seen) and (seen >= 1).any():
        frequencies = scores_by_frequency(seen[seen >= 1], tokens[seen >= 1])
        measures["frequency"] = frequencies, "occurrences of the source in the corpus"
    rows: list[tuple[str | float, ...]] = []
    pictures = {}
    for measure, (binned, label) in measures.items():
        pictures[f"{name}_{measure.replace(' ', '_')}"] = rendered(
            draw_binned_scores(binned, label, measure == "frequency"), f"ln p per target token by {label}"
        )
        for key, count, quartiles in zip(binned.keys, binned.counts, binned.quartiles, strict=True):
            rows.append((measure, int(key), count, *(round(float(quartile), 4) for quartile in quartiles)))
    header = "by", "from", "pairs", "lower quartile (nats per token)", "median", "upper quartile"
    body = fill("lengths", pairs=len(scores), kind=what, drawings=pictures.values())
    table = Table("Scores by length and frequency", header, rows)
    title = "Scores by length and frequency" if "frequency" in measures else "Scores by length"
    return Section(name, title, body, {name: table}, pictures)


def bleu_section(corpus_bleu: float, bins: Sequence[LengthBleu]) -> Section:
    """Writes BLEU of greedy translations, of all and by the length of the source."""
    drawing = rendered(draw_bleu(bins, corpus_bleu), f"BLEU by source length; {corpus_bleu:.1f} for all sentences")
    rows = [(each.words, each.sentences, round(each.bleu, 2)) for each in bins]
    table = Table("BLEU by source length", ("source words", "sentences", "BLEU"), rows)
    sentences = sum(each.sentences for each in bins)
    body = fill("bleu", sentences=sentences, drawing=drawing, bins=table)
    return Section("bleu", "BLEU by source length", body, {"bleu": table}, {"bleu": drawing})


KINDS = {
    "given": "The requested phrases",
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
    log_probs = iter(scorer.score(pair_words(pairs)).tolist())
    preferences = []
    for lines in phrases:
        # The probabilities of lines that differ only in factors, which the model does not see, add up.
        options: dict[str, tuple[float, float]] = {}
        for pair in lines:
            target, by_model = plain_text(pair.target), math.exp(next(log_probs))
            options[target] = options.get(target, (0.0, 0.0))[0] + pair.probability, by_model
        merged = [(target, *probabilities) for target, probabilities in options.items()]
        preferences.append(Preferences(plain_text(lines[0].source), merged, lines[0].occurrences))
    return preferences


def pair_words(pairs: Sequence[TablePair]) -> list[WordPair]:
    """Splits lines of a table, which are tokenized, into the words that the model reads: pairs of lists of str."""
    return [(model_words(pair.source), model_words(pair.target)) for pair in pairs]


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
    check_texts(sources)
    targets = generator.generate_words(list(map(model_words, sources)), RandomSampler(samples, seed=seed))
    return [SampledTargets(source, samples, distinct) for source, distinct in zip(sources, targets, strict=True)]


def best_targets_section(phrases: Mapping[str, Sequence[Preferences]]) -> Section:
    """Writes Table 2: the top three targets by the table and by the model.

    Args:
        phrases: dict from kind, "frequent", "rare", "long" or "given", to list of Preferences.
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
    body = fill("best_targets", kinds=shown)
    return Section("best-targets", "Best targets (Table 2)", body, {"best_targets": best})


def _with_notes(targets: Sequence[str], probabilities: Mapping[str, float]) -> list[tuple[str, str]]:
    return [(target, number_text(probabilities[target])) for target in targets]


def samples_section(phrases: Mapping[str, Sequence[SampledTargets]]) -> Section:
    """Writes Table 3: the best of the samples drawn from the model.

    Args:
        phrases: dict from kind, "frequent", "rare", "long" or "given", to list of SampledTargets.
    """
    rows, shown, samples = [], {}, 0
    for kind, sampled in phrases.items():
        shown[KINDS[kind]] = []
        for phrase in sampled:
            samples, source, best = phrase.samples, plain_text(phrase.source), []
            for rank, sample in enumerate(phrase.distinct, start=1):
                target = " ".join(sample.words)
                rows.append((source, kind, rank, target, sample.count, sample.log_prob))
                if rank <= BEST_SAMPLES:
                    best.append((target, f"{sample.count} ×, ln p {number_text(sample.log_prob)}"))
            shown[KINDS[kind]].append((source, 0, [best]))
    header = "source", "kind", "rank", "sample", "count", "ln p (nats)"
    table = Table("Distinct samples of each source phrase", header, rows)
    body = fill("samples", kinds=shown, samples=samples)
    return Section("samples", "Samples (Table 3)", body, {"samples": table})
