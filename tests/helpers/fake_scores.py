"""What encdec-score would write for the fake server's scores."""

import numpy as np
from fake_prediction_server import token_scores
from fake_prediction_server import unknown_count as unknown_count_of

from keras_encdec.formats import model_words, pair_format
from keras_encdec.scoring.pair_scorer import PairScores
from keras_encdec.scoring.record_scorer import RecordScorer
from keras_encdec.scoring.scoring_options import ScoringOptions


class DirectScorer:
    """The fake model without a server."""

    def all_words(self, pairs, factored=False):
        return [tuple(model_words(side, factored) for side in pair) for pair in pairs]

    def score_pairs(self, pairs, *, token_log_probs=False, unknown_count=False, attention=False):
        tokens = [token_scores(*pair) for pair in pairs]
        return PairScores(
            np.array([float(row.sum()) for row in tokens]),
            [row.astype(np.float64) for row in tokens],
            [unknown_count_of(target) for _, target in pairs],
        )


def expected(path, format="phrase_table", unknown=False, tokens=False, **arguments):
    """What encdec-score would write for the fake model's scores."""
    known = pair_format(format)
    options = ScoringOptions(format=format, unknown_count=unknown, token_scores=tokens, max_tokens=None)
    scorer = RecordScorer(known, [DirectScorer()], options)
    with known.open_reader(path, **arguments) as reader:
        return b"\n".join(scorer(list(reader))[0]) + b"\n" * reader.lines.ended_with_newline
