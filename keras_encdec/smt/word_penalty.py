"""The word penalty: Moses's feature of the length of a hypothesis, for lists that have none."""

import dataclasses

from keras_encdec.errors import InputError
from keras_encdec.formats import FilePath, append_features, parse_features, parse_nbest_line
from keras_encdec.smt.nbest_sentences import Hypothesis, SentenceHypotheses

WORD_PENALTY = "WordPenalty0"


def with_word_penalty(sentence: SentenceHypotheses, path: FilePath | None = None) -> SentenceHypotheses:
    """Adds the feature `WordPenalty0`, minus the number of words, to the hypotheses of a sentence.

    Args:
        sentence: SentenceHypotheses.
        path: the n-best list, named in errors. Optional.

    Returns:
        SentenceHypotheses, whose lines have the feature, too.

    Raises:
        InputError: when there is such a feature already.
    """
    return dataclasses.replace(sentence, hypotheses=[_with_word_penalty(one, path) for one in sentence.hypotheses])


def _with_word_penalty(hypothesis, path):
    if WORD_PENALTY in parse_features(hypothesis.parsed.features):
        raise InputError(
            f"found the feature {WORD_PENALTY}", "expected a list without it", "leave out --word_penalty",
            path, hypothesis.line_number,
        )  # fmt: skip
    words = len(hypothesis.parsed.hypothesis.split())
    raw = append_features(hypothesis.raw, [(WORD_PENALTY, str(-words))])
    return Hypothesis(hypothesis.line_number, raw, parse_nbest_line(raw))
