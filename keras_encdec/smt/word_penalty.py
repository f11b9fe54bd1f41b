"""The word penalty: Moses's feature of the length of a hypothesis, for lists that have none."""

import dataclasses

from keras_encdec.formats import FilePath, append_features, parse_features, parse_nbest_line
from keras_encdec.formats.nbest_line import check_new_features
from keras_encdec.formats.tokens import split_tokens
from keras_encdec.smt.nbest_sentences import Hypothesis

WORD_PENALTY = "WordPenalty0"


def add_word_penalty(
    features: dict[str, list[float]], hypothesis: bytes, path: FilePath | None = None, line: int | None = None
) -> None:
    """Adds the feature `WordPenalty0`, minus the number of words, to the features of a hypothesis.

    Args:
        features: dict of str to list of float, as `parse_features` returns it.
        hypothesis: bytes. The hypothesis as it stands in the list.
        path: the n-best list, named in errors. Optional.
        line: int. The line's number. Optional.

    Raises:
        InputError: when there is such a feature already.

    Example:

    >>> features = {"LM0": [-4.0]}
    >>> add_word_penalty(features, b"le|DET chat|NOM")
    >>> features
    {'LM0': [-4.0], 'WordPenalty0': [-2.0]}
    """
    check_new_features(features, [WORD_PENALTY], path, line, "leave out --word_penalty")
    features[WORD_PENALTY] = [0.0 - len(split_tokens(hypothesis))]


def with_word_penalty(hypothesis: Hypothesis, path: FilePath | None = None) -> Hypothesis:
    """A hypothesis whose line has the feature, too.

    Args:
        hypothesis: Hypothesis.
        path: the n-best list, named in errors. Optional.

    Returns:
        Hypothesis.

    Raises:
        InputError: when there is such a feature already.
    """
    features = parse_features(hypothesis.parsed.features)
    add_word_penalty(features, hypothesis.parsed.hypothesis, path, hypothesis.line_number)
    added = [(WORD_PENALTY, f"{features[WORD_PENALTY][0]:g}")]
    raw = append_features(hypothesis.raw, added)
    return dataclasses.replace(hypothesis, raw=raw, parsed=parse_nbest_line(raw))
