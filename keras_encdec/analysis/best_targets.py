"""Table 2 of the paper from a phrase table as it is: the model scores the targets that the table has."""

from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.preferences import Preferences
from keras_encdec.analysis.table_sample import TablePair, plain_text
from keras_encdec.scoring.pair_scorer import WordPair
from keras_encdec.scoring.text_scorer import TextScorer


def best_targets(scorer: TextScorer, phrases: Sequence[Sequence[TablePair]]) -> list[Preferences]:
    """Scores all targets of source phrases.

    Args:
        scorer: TextScorer of the model.
        phrases: list of lists of TablePair, all lines of a source each, see `TableSample.choose_phrases`.

    Returns:
        list of Preferences, whose `by_table` and `by_model` are the columns of Table 2; both probabilities of an
        option are p(target | source).
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
    """Lines of a table as the model reads them: list of pairs of lists of str."""
    return scorer.all_words([(pair.source, pair.target) for pair in pairs], factored=True)
