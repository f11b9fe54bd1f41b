"""The weights of the phrase-based decoder's features."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from keras_encdec.errors import InputError, shortened
from keras_encdec.formats.feature_weights import check_weights

# Of an unknown word, as Moses has it.
UNKNOWN_WORD_PENALTY = -100.0
# Moses's, before tuning; the scores of the phrase table have 0.2 each.
_INITIAL = {"Distortion0": [0.3], "LM0": [0.5], "WordPenalty0": [-1.0], "PhrasePenalty0": [0.2]}
_TRANSLATION, _UNKNOWN = "TranslationModel0", "UnknownWordPenalty0"


class DecoderWeights(NamedTuple):
    """Weights by what they belong to; the features are those of Moses.

    Attributes:
        distortion: float. Of minus the sum of the distances that are jumped in the source.
        language_model: float. Of ln p of the sentence by the language model.
        word_penalty: float. Of minus the number of words.
        phrase_penalty: float. Of the number of phrases.
        translation: tuple of float. Of the sums of ln of each score of the phrase table.
        unknown: float. Of -100 for each unknown word.
    """

    distortion: float
    language_model: float
    word_penalty: float
    phrase_penalty: float
    translation: tuple[float, ...]
    unknown: float

    @classmethod
    def of_features(cls, weights: Mapping[str, Sequence[float]], number_of_scores: int) -> Self:
        """The weights of features by their names, checked.

        Args:
            weights: dict of str to list of float, as `read_weights` returns it. `UnknownWordPenalty0` may be missing.
            number_of_scores: int. Scores of each line of the phrase table.

        Raises:
            InputError: when a weight is too large, a feature has no weights or another number of them, or a feature
                that the decoder does not compute has other weights than 0.
        """
        lengths = {**{name: 1 for name in _INITIAL}, _TRANSLATION: number_of_scores, _UNKNOWN: 1}
        weights = {_UNKNOWN: [1.0], **weights}
        check_weights(weights)
        for name, length in lengths.items():
            if name not in weights:
                raise InputError(
                    f"found no weight of {name}", f"expected weights of {', '.join(lengths)}", "add it to the weights"
                )
            if len(weights[name]) != length:
                reason = f"{length}, as the phrase table has scores" if name == _TRANSLATION else "1"
                raise InputError(
                    f"found {len(weights[name])} weights of {name}", f"expected {reason}",
                    "give the weights that belong to the phrase table",
                )  # fmt: skip
        for name in weights.keys() - lengths.keys():
            if any(weights[name]):
                zeros = " 0" * len(weights[name])
                raise InputError(
                    f"found weights of {shortened(name)}",
                    f"expected features of the decoder only, {', '.join(lengths)}",
                    f'leave it out, or give "{name}={zeros}"',
                )  # fmt: skip
        one = {name: weights[name][0] for name in (*_INITIAL, _UNKNOWN)}
        return cls(*(one[name] for name in _INITIAL), tuple(weights[_TRANSLATION]), one[_UNKNOWN])


def initial_weights(number_of_scores: int) -> dict[str, list[float]]:
    """The weights that Moses begins tuning with.

    Args:
        number_of_scores: int. Scores of each line of the phrase table.

    Returns:
        dict of str to list of float, by feature.

    Example:

    >>> initial_weights(4)["TranslationModel0"]
    [0.2, 0.2, 0.2, 0.2]
    """
    return {**{name: list(values) for name, values in _INITIAL.items()}, _TRANSLATION: [0.2] * number_of_scores}
