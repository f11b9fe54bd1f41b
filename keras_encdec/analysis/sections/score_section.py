"""Figure 3 as a section of the report."""

import math

import numpy as np

from keras_encdec.analysis.drawing.score_density import MODEL_LABEL, TABLE_LABEL, draw_scores
from keras_encdec.analysis.drawing.style import drawn
from keras_encdec.analysis.page.elements import Table, number_text
from keras_encdec.analysis.page.scatter import Scatter
from keras_encdec.analysis.page.section import Section
from keras_encdec.analysis.score_comparison import ScoreComparison
from keras_encdec.analysis.table_sample import plain_text

DIFFERING = 15


def score_section(comparison: ScoreComparison, num_pairs: int) -> Section:
    """Figure 3: the model's ln p against the table's, and where the two differ most.

    Args:
        comparison: ScoreComparison.
        num_pairs: int. Lines of the table that the pairs were drawn from.
    """
    shown = len(comparison.pairs)
    whole = "every pair of the table"
    if shown < num_pairs:
        whole = f"{shown:,} of the table’s {num_pairs:,} pairs"
    title, left_out = "Scores (Figure 3)", ""
    if comparison.left_out:
        left_out = f" Pairs of probability 0 in the table are left out: {comparison.left_out:,}."
    if not shown:
        return Section("scores", title, f"<p>No pair has a probability above 0 in the table.{left_out}</p>")
    r, rho = comparison.correlation, comparison.rank_correlation
    body = (
        f"<p>ln p(target | source), by the phrase table and by the model, of {whole}.{left_out} Correlation: "
        f"Pearson’s r {_text(r)}, Spearman’s rho {_text(rho)}. On the dashed line the two agree; the table gives "
        "p = 1 to a target that is its source’s only one, however rare.</p>"
    )
    sources, targets = ([plain_text(pair[side]) for pair in comparison.pairs] for side in (0, 1))
    scatter = Scatter(
        "scores", "The model's ln p of each phrase pair against the phrase table's",
        "Each point is a phrase pair; where points are many, the darker the more.",
        np.stack([comparison.table, comparison.model], axis=1), [sources, targets], "pairs",
        [(TABLE_LABEL, "table"), (MODEL_LABEL, "model")],
    )  # fmt: skip
    header = "source", "target", "ln p by table (nats)", "ln p by model (nats)"
    above, below = (
        [(sources[i], targets[i], float(comparison.table[i]), float(comparison.model[i])) for i in indices]
        for indices in comparison.most_differing(DIFFERING)
    )
    more = Table("Pairs more probable by the model than by the table", header, above)
    less = Table("Pairs less probable by the model than by the table", header, below)
    explained = (
        "<h3>Where the two differ most</h3><p>The pairs furthest above and below the dashed line. A table’s p says "
        "little where a source is rare; a model’s falls with every word of a long target.</p>"
    )
    both = "".join(table.to_html() for table in (more, less) if table.rows)
    numbers = zip(sources, targets, np.round(comparison.table, 5), np.round(comparison.model, 5), strict=True)
    tables = {"scores": Table("Scores of pairs", header, list(numbers)), "more_probable": more, "less_probable": less}
    return Section(
        "scores", title, body + scatter.to_html() + (explained + both if both else ""), tables,
        {"scores": drawn(draw_scores(comparison))},
    )  # fmt: skip


def _text(correlation):
    return "undefined" if math.isnan(correlation) else number_text(correlation)
