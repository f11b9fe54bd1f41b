"""Scores by length and frequency, and BLEU by length, as sections of the report."""

from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.binned_scores import scores_by_frequency, scores_by_length
from keras_encdec.analysis.bleu_by_length import LengthBleu
from keras_encdec.analysis.drawing.curves import draw_binned_scores, draw_bleu
from keras_encdec.analysis.drawing.style import drawn
from keras_encdec.analysis.page.elements import Table, picture
from keras_encdec.analysis.page.section import Section


def length_section(
    name: str, what: str, lengths: Sequence[tuple[int, int]], scores: np.ndarray, occurrences: Sequence[float] = ()
) -> Section:
    """ln p a token by source length, target length and frequency.

    Args:
        name: str. The section's, and of its files.
        what: str. What the pairs are, such as "pairs of the table".
        lengths: list of n pairs of int, source and target words.
        scores: float array `(n,)`, the model's ln p of each pair.
        occurrences: list of n float, how often each source was seen; or none, where that is not known.
    """
    sources, targets = np.array(lengths, int).reshape(-1, 2).T
    tokens = scores / (targets + 1)  # the end of sequence is one, too
    measures = {
        "source length": (scores_by_length(sources, tokens), "source length (words)"),
        "target length": (scores_by_length(targets, tokens), "target length (words)"),
    }
    seen = np.asarray(occurrences, float)
    if len(seen) and (seen >= 1).any():
        frequencies = scores_by_frequency(seen[seen >= 1], tokens[seen >= 1])
        measures["frequency"] = frequencies, "occurrences of the source in the corpus"
    rows, pictures = [], {}
    for measure, (binned, label) in measures.items():
        pictures[f"{name}_{measure.replace(' ', '_')}"] = drawn(
            draw_binned_scores(binned, label, measure == "frequency")
        )
        for key, count, quartiles in zip(binned.keys, binned.counts, binned.quartiles, strict=True):
            rows.append((measure, int(key), count, *(round(float(one), 4) for one in quartiles)))
    header = "by", "from", "pairs", "lower quartile (nats a token)", "median", "upper quartile"
    body = (
        f"<p>The model’s ln p(target | source) a target token, the end of sequence among them, of {len(scores):,} "
        f"{what}: the median, and between which values half of the pairs lie.</p>"
    )
    shown = "".join(
        picture(drawing.svg, f"ln p a target token by {measures[measure][1]}")
        for measure, drawing in zip(measures, pictures.values(), strict=True)
    )
    table = Table("Scores by length and frequency", header, rows)
    title = "Scores by length and frequency" if "frequency" in measures else "Scores by length"
    return Section(name, title, f'{body}<div class="pictures">{shown}</div>', {name: table}, pictures)


def bleu_section(whole: float, bins: Sequence[LengthBleu]) -> Section:
    """BLEU of greedy translations by the length of the source.

    Args:
        whole: float. BLEU of all sentences.
        bins: list of LengthBleu.
    """
    drawing, sentences = drawn(draw_bleu(bins, whole)), sum(one.sentences for one in bins)
    rows = [(one.words, one.sentences, round(one.bleu, 2)) for one in bins]
    table = Table("BLEU by source length", ("source words", "sentences", "BLEU"), rows)
    body = (
        f"<p>Greedy translations of {sentences:,} sentences, in the model’s own tokens. BLEU is that of sacrebleu over "
        "the sentences of each bin together.</p>"
    )
    shown = picture(drawing.svg, f"BLEU by source length; {whole:.1f} of all sentences")
    body = f'{body}<div class="pictures">{shown}{table.to_html()}</div>'
    return Section("bleu", "BLEU by source length", body, {"bleu": table}, {"bleu": drawing})
