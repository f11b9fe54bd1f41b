"""Lines of a file with the model's scores added, one class a format."""

import numpy as np

from keras_encdec.formats import (
    append_columns,
    append_features,
    format_exponential,
    format_probability,
    model_words,
    parse_features,
    parse_line,
)
from keras_encdec.formats.malformed_line import MalformedLine

# A malformed line is passed through with probability 1, ln p 0: it adds nothing to a log-linear model.
NEUTRAL_PROBABILITY, NEUTRAL_LOG_PROB = "1", "0"


class _Rows:
    def close(self):
        """Drops what is still to be computed."""
        for scorer in self._scorers:
            scorer.close()

    def _columns(self, scorer, pairs, name):
        """A column of a scorer; after it, of the forward model, the unknown counts if they are to be added."""
        counted = self._unknown_count and scorer is self._scorers[0]
        return scorer.columns(pairs, [name, "unknown_count"] if counted else [name])


class PhraseTableRows(_Rows):
    """Adds probabilities to lines of a phrase table.

    Args:
        scorers: list of TextScorer or what has its `columns` and `close`, a score each, the first the
            forward model's.
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
        columns, unknown = [], []
        for scorer in self._scorers:
            log_probs, *counts = self._columns(scorer, pairs, "log_prob")
            columns.append([format_probability(score) for score in log_probs])
            unknown += counts
        columns += [[format_exponential(count) for count in counts] for counts in unknown]
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
        scorers: list of TextScorer or what has its `all_words`, `columns` and `close`, a column each, the
            first the forward model's.
        unknown_count: bool. Whether to add the number of target words outside the shortlist.
        token_scores: bool. Whether to add the forward model's ln p of each token, separated by spaces.
    """

    def __init__(self, scorers, unknown_count, token_scores):
        self._scorers, self._unknown_count, self._token_scores = scorers, unknown_count, token_scores
        self.added = len(scorers) + unknown_count + token_scores

    def __call__(self, records):
        """The lines of some records, as bytes without line feed."""
        good = [record for record in records if record.problem is None]
        columns, unknown, forward_tokens = [], [], []
        for scorer in self._scorers:
            pairs = scorer.all_words([(record.source, record.target) for record in good])
            tokens, *counts = self._columns(scorer, pairs, "token_log_probs")
            # Rounded before they are added, so that the tokens' column adds up to the digit.
            tokens = [np.round(row, 6) for row in tokens]
            columns.append([f"{row.sum():.6f}" for row in tokens])
            unknown += [map(str, column) for column in counts]
            if self._token_scores and scorer is self._scorers[0]:
                forward_tokens = [" ".join(f"{value:.6f}" for value in row) for row in tokens]
        columns += unknown
        if self._token_scores:
            columns.append(forward_tokens)
        scores = iter(zip(*columns, strict=True))
        neutral = [NEUTRAL_LOG_PROB] * (self.added - self._token_scores) + [""] * self._token_scores
        return [
            append_columns(record.raw, list(next(scores)) if record.problem is None else neutral) for record in records
        ]


class NBestRows(_Rows):
    """Adds features to lines of an n-best list: ln p in nats, and counts.

    Args:
        scorers: list of TextScorer, a feature each, the first the forward model's.
        sources: list of str, the source sentence of each id.
        names: list of str, of the features: one a scorer, then those of the counts.
        unknown_count: bool. Whether to add the number of target words outside the shortlist.
        length: bool. Whether to add the number of tokens that the forward model predicts, the end of
            sequence among them.
    """

    def __init__(self, scorers, sources, names, unknown_count, length):
        self._scorers, self._sources, self._names = scorers, sources, names
        self._unknown_count, self._length = unknown_count, length

    def __call__(self, records):
        """The lines of some records, as bytes without line feed."""
        good = [record for record in records if record.problem is None]
        texts = [(self._sources[record.id], record.hypothesis) for record in good]
        columns, counts = [], []
        for scorer in self._scorers:
            pairs = scorer.all_words(texts, factored=True)
            log_probs, *unknown = self._columns(scorer, pairs, "log_prob")
            columns.append([f"{score:.6f}" for score in log_probs])
            counts += unknown
            if self._length and scorer is self._scorers[0]:
                counts.append([len(target) + 1 for _, target in pairs])
        columns += [map(str, column) for column in counts]
        scores = iter(zip(*columns, strict=True))
        return [
            append_features(record.raw, list(zip(self._names, next(scores), strict=True)))
            if record.problem is None
            else self._unscored(record.raw)
            for record in records
        ]

    def _unscored(self, raw):
        try:
            parse_features(raw.split(b"|||")[2])
        except (MalformedLine, IndexError):
            return raw  # it has no field of features to add to
        return append_features(raw, [(name, NEUTRAL_LOG_PROB) for name in self._names])
