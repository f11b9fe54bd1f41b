"""Options of the phrase-based decoder, and the weights of its features."""

import dataclasses
from typing import NamedTuple, Self

from keras_encdec.configuration import hyperparameter
from keras_encdec.errors import InputError, shortened
from keras_encdec.formats.feature_weights import (
    DISTORTION,
    LANGUAGE_MODEL,
    PHRASE_PENALTY,
    TRANSLATION_MODEL,
    UNKNOWN_WORD_PENALTY,
    WORD_PENALTY,
    Weights,
    check_weights,
)
from keras_encdec.runtime.progress import counted
from keras_encdec.task_options import EncodingOption, ShardOptions

# Ranking derivations recurses once for each phrase. More phrases would exceed Python's recursion limit.
MAX_SENTENCE_LENGTH = 500
# The value of the feature `UnknownWordPenalty0` for each unknown word, as in Moses.
UNKNOWN_WORD_VALUE = -100.0
# The weights with which Moses begins tuning. Each score of the phrase table has the weight 0.2.
_INITIAL = {DISTORTION: [0.3], LANGUAGE_MODEL: [0.5], WORD_PENALTY: [-1.0], PHRASE_PENALTY: [0.2]}


@dataclasses.dataclass(frozen=True)
class DecodingOptions(EncodingOption, ShardOptions):
    """Options of `decode_nbest`.

    The default distortion limit is the one that Moses's training writes into a moses.ini, and the default table limit
    is Moses's. Moses's default pop limit is 1,000, which takes three times as long for little gain.
    """

    number_of_processes: int | None = hyperparameter(
        None,
        "Processes that share the work. Default: the number of processors; with Ray, as many as its processors allow.",
        minimum=1,
    )
    nbest_size: int = hyperparameter(100, "Maximum number of hypotheses per sentence, all distinct.", minimum=1)
    pop_limit: int = hyperparameter(
        300,
        "Number of hypotheses that are tried per stack, that is, for each number of translated words, like Moses's "
        "cube-pruning-pop-limit. A higher number takes longer and finds translations with higher totals.",
        minimum=1,
    )
    distortion_limit: int = hyperparameter(
        6,
        "Maximum distortion: the number of source words that a jump may skip. 0 translates in the order of the source; "
        "-1 means no limit.",
        minimum=-1,
    )
    table_limit: int = hyperparameter(
        20,
        "Maximum number of targets per source phrase: those with the highest weighted sums. 0 means no limit.",
        minimum=0,
    )
    max_sentence_length: int = hyperparameter(
        100, "Maximum number of words in a sentence; a longer one is an error.", minimum=1, maximum=MAX_SENTENCE_LENGTH
    )

    @property
    def in_shards(self) -> bool:
        """Whether the task works in shards. Unlike other tasks, this one needs no shards for several processes."""
        return bool(self.shard_lines or self.engine != "local")


class DecoderWeights(NamedTuple):
    """The weights of the decoder's features, which are those of Moses.

    Attributes:
        distortion: float. Weight of minus the sum of the distances of jumps in the source.
        language_model: float. Weight of ln p of the sentence by the language model.
        word_penalty: float. Weight of minus the number of words.
        phrase_penalty: float. Weight of the number of phrases.
        translation: tuple of float. For each score of the phrase table, the weight of the sum of its ln.
        unknown: float. Weight of -100 times the number of unknown words.
    """

    distortion: float
    language_model: float
    word_penalty: float
    phrase_penalty: float
    translation: tuple[float, ...]
    unknown: float

    @classmethod
    def of_features(cls, weights: Weights, num_scores: int) -> Self:
        """Checks weights that are given by the names of features, and arranges them for the decoder.

        Args:
            weights: dict from str to list of float, as `read_weights` returns it. `UnknownWordPenalty0` may be missing.
            num_scores: int. Number of scores on each line of the phrase table.

        Raises:
            InputError: if a weight is too large, a feature has no weights or a wrong number of weights, or a
                feature that the decoder does not compute has a weight other than 0.
        """
        lengths = {**dict.fromkeys(_INITIAL, 1), TRANSLATION_MODEL: num_scores, UNKNOWN_WORD_PENALTY: 1}
        weights = {UNKNOWN_WORD_PENALTY: [1.0], **weights}
        check_weights(weights)
        for name, length in lengths.items():
            if name not in weights:
                raise InputError(
                    f"found no weight of {name}", f"expected weights of {', '.join(lengths)}", "add it to the weights"
                )
            if len(weights[name]) != length:
                expected, remedy = "expected 1", f'give it, such as --weight="{name}= 0.5"'
                if name == TRANSLATION_MODEL:
                    expected = f"expected {length}, one for each score of the table"
                    remedy = "give the weights that belong to the phrase table"
                raise InputError(f"found {counted(len(weights[name]), 'weights')} of {name}", expected, remedy)
        if others := [name for name, values in weights.items() if name not in lengths and any(values)]:
            dense = [name for name in others if "_" not in name]
            sparse = len(others) - len(dense)  # there may be thousands
            names = [*map(shortened, dense), *([counted(sparse, "sparse features")] if sparse else [])]
            zeros = " ".join(f'--weight="{shortened(name)}={" 0" * len(weights[name])}"' for name in dense)
            raise InputError(
                f"found weights of {', '.join(names)}",
                f"expected weights of the decoder's features only: {', '.join(lengths)}",
                "leave them out"
                + f", or give {zeros}" * bool(dense)
                + "; in a moses.ini, remove [weight-file]" * bool(sparse),
            )
        distortion, language_model, word_penalty, phrase_penalty = (weights[name][0] for name in _INITIAL)
        translation, unknown = tuple(weights[TRANSLATION_MODEL]), weights[UNKNOWN_WORD_PENALTY][0]
        return cls(distortion, language_model, word_penalty, phrase_penalty, translation, unknown)


def initial_weights(num_scores: int) -> dict[str, list[float]]:
    """Returns the weights, by feature, with which Moses begins to tune if a line of the table has `num_scores` scores.

    Example:

    >>> initial_weights(4)["TranslationModel0"]
    [0.2, 0.2, 0.2, 0.2]
    """
    return {**{name: list(values) for name, values in _INITIAL.items()}, TRANSLATION_MODEL: [0.2] * num_scores}
