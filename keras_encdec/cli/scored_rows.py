"""Lines of a file with the model's scores added, one class a format."""

import numpy as np

from keras_encdec.formats import (
    append_columns,
    format_exponential,
    format_probability,
    model_words,
    parse_line,
)
from keras_encdec.formats.phrase_table_line import MalformedLine

# A malformed line is passed through with probability 1, ln p 0: it adds nothing to a log-linear model.
NEUTRAL_PROBABILITY, NEUTRAL_LOG_PROB = "1", "0"


class _Rows:
    def close(self):
        """Drops what is still to be computed."""
        for scorer in self._scorers:
            scorer.close()


class PhraseTableRows(_Rows):
    """Adds probabilities to lines of a phrase table.

    Args:
        scorers: list of TextScorer, a score each, the first the forward model's.
        unknown_count: bool. Whether to add e^(number of target words outside the shortlist).
    """

    def __init__(self, scorers, unknown_count):
        self._scorers, self._unknown_count = scorers, unknown_count
        self.added = len(scorers) + unknown_count

    def __call__(self, records):
        """The lines of some records, as bytes without line feed."""
        good = [record for record in records if record.problem is None]
        words = {source: model_words(source) for source in {record.source for record in good}}
        pairs = [(words[record.source], model_words(record.target)) for record in good]
        columns = [[format_probability(score) for score in scorer.score(pairs)] for scorer in self._scorers]
        if self._unknown_count:
            columns.append([format_exponential(count) for count in self._scorers[0].unknown_counts(pairs)])
        scores = iter(zip(*columns, strict=True))
        return [
            record.parsed.append_scores(next(scores)) if record.problem is None else self._unscored(record.raw)
            for record in records
        ]

    def _unscored(self, raw):
        try:
            return parse_line(raw).append_scores([NEUTRAL_PROBABILITY] * self.added)
        except MalformedLine:
            return raw  # it has no field of scores to add to


class TsvRows(_Rows):
    """Adds columns of ln p, in nats, to lines of a TSV file.

    Args:
        scorers: list of TextScorer, a column each, the first the forward model's.
        unknown_count: bool. Whether to add the number of target words outside the shortlist.
        token_scores: bool. Whether to add the forward model's ln p of each token, separated by spaces.
    """

    def __init__(self, scorers, unknown_count, token_scores):
        self._scorers, self._unknown_count, self._token_scores = scorers, unknown_count, token_scores
        self.added = len(scorers) + unknown_count + token_scores

    def __call__(self, records):
        """The lines of some records, as bytes without line feed."""
        good = [record for record in records if record.problem is None]
        columns = []
        for scorer in self._scorers:
            pairs = scorer.all_words([(record.source, record.target) for record in good])
            tokens = scorer.token_scores(pairs)
            # Rounded before they are added, so that the tokens' column adds up to the digit.
            tokens = [np.round(row, 6) for row in tokens]
            columns.append([f"{row.sum():.6f}" for row in tokens])
            if scorer is self._scorers[0]:
                unknown = map(str, scorer.unknown_counts(pairs))
                forward_tokens = [" ".join(f"{value:.6f}" for value in row) for row in tokens]
        if self._unknown_count:
            columns.append(unknown)
        if self._token_scores:
            columns.append(forward_tokens)
        scores = iter(zip(*columns, strict=True))
        neutral = [NEUTRAL_LOG_PROB] * (self.added - self._token_scores) + [""] * self._token_scores
        return [
            append_columns(record.raw, list(next(scores)) if record.problem is None else neutral) for record in records
        ]
