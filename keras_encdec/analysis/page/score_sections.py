"""Writes the sections about scores and BLEU."""

import math
from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.page.figures import (
    MODEL_LABEL,
    TABLE_LABEL,
    draw_binned_scores,
    draw_bleu,
    draw_scores,
    drawn,
)
from keras_encdec.analysis.page.page import Scatter, Section, Table, fill, number_text
from keras_encdec.analysis.score_statistics import LengthBleu, ScoreComparison, scores_by_frequency, scores_by_length
from keras_encdec.analysis.table_sample import plain_text

DIFFERING = 15


def score_section(comparison: ScoreComparison, num_pairs: int) -> Section:
    """Writes Figure 3: the model's ln p against the table's, and the pairs for which they differ most.

    Args:
        comparison: ScoreComparison.
        num_pairs: int. Number of lines of the table that the pairs were drawn from.
    """
    title, shown = "Scores (Figure 3)", len(comparison.pairs)
    if not shown:
        return Section("scores", title, fill("sections.html", "no_scores", zero=comparison.left_out))
    sources = [plain_text(pair.source) for pair in comparison.pairs]
    targets = [plain_text(pair.target) for pair in comparison.pairs]
    scatter = Scatter(
        "scores",
        "The model's ln p of each phrase pair against the phrase table's",
        "Each point is a phrase pair; where points are many, the darker the more.",
        np.stack([comparison.table, comparison.model], axis=1),
        [sources, targets],
        "pairs",
        [(TABLE_LABEL, "table"), (MODEL_LABEL, "model")],
    )
    header = "source", "target", "ln p by table (nats)", "ln p by model (nats)"
    above, below = (
        [(sources[i], targets[i], float(comparison.table[i]), float(comparison.model[i])) for i in indices]
        for indices in comparison.most_differing(DIFFERING)
    )
    more = Table("Pairs more probable by the model than by the table", header, above)
    less = Table("Pairs less probable by the model than by the table", header, below)
    body = fill(
        "sections.html",
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
    return Section("scores", title, body, tables, {"scores": drawn(draw_scores(comparison))})


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
        pictures[f"{name}_{measure.replace(' ', '_')}"] = drawn(
            draw_binned_scores(binned, label, measure == "frequency"), f"ln p per target token by {label}"
        )
        for key, count, quartiles in zip(binned.keys, binned.counts, binned.quartiles, strict=True):
            rows.append((measure, int(key), count, *(round(float(quartile), 4) for quartile in quartiles)))
    header = "by", "from", "pairs", "lower quartile (nats per token)", "median", "upper quartile"
    body = fill("sections.html", "lengths", pairs=len(scores), kind=what, drawings=pictures.values())
    table = Table("Scores by length and frequency", header, rows)
    title = "Scores by length and frequency" if "frequency" in measures else "Scores by length"
    return Section(name, title, body, {name: table}, pictures)


def bleu_section(whole: float, bins: Sequence[LengthBleu]) -> Section:
    """Writes BLEU of greedy translations by the length of the source.

    Args:
        whole: float. BLEU of all sentences, 0 to 100.
        bins: list of LengthBleu.
    """
    drawing = drawn(draw_bleu(bins, whole), f"BLEU by source length; {whole:.1f} of all sentences")
    rows = [(each.words, each.sentences, round(each.bleu, 2)) for each in bins]
    table = Table("BLEU by source length", ("source words", "sentences", "BLEU"), rows)
    sentences = sum(each.sentences for each in bins)
    body = fill("sections.html", "bleu", sentences=sentences, drawing=drawing, bins=table)
    return Section("bleu", "BLEU by source length", body, {"bleu": table}, {"bleu": drawing})
