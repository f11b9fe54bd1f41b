"""Options of adding features to an n-best list, and of ranking by their weighted sum."""

import dataclasses

from keras_encdec.configuration import hyperparameter
from keras_encdec.formats.nbest_line import check_feature_name
from keras_encdec.task_options import EncodingOption, MalformedLinesOption

FORMATS = ("nbest", "text")


@dataclasses.dataclass(frozen=True)
class PosteriorOptions(EncodingOption):
    """Options of `add_ngram_posteriors`."""

    scale: float = hyperparameter(
        1.0,
        "A translation's probability is proportional to exp(scale * total score); with 0, all translations of a "
        "sentence are equally probable.",
        minimum=0.0,
    )
    feature_name: str = hyperparameter("NgramPosterior0", "Name of the feature, which has four values.")

    def check(self) -> None:
        check_feature_name(self.feature_name)


@dataclasses.dataclass(frozen=True)
class PhraseFeatureOptions(EncodingOption, MalformedLinesOption):
    """Options of `add_phrase_features`."""

    moses_feature: str = hyperparameter(
        "TranslationModel0",
        "Name of the phrase table's feature in the list; its values are used to recover the phrases if the list has no "
        "segmentation.",
    )
    on_error: str = hyperparameter(
        "stop",
        "A malformed line, or a hypothesis whose phrases are not found, stops the command (stop); or such lines are "
        "counted (keep): the hypothesis gets the mean of the others of its sentence, or -100 for each word of the "
        "sentence if no hypothesis's phrases are found; a malformed line gets 0, and a malformed line of the table is "
        "left out.",
        choices=("stop", "keep"),
    )


@dataclasses.dataclass(frozen=True)
class RerankOptions(EncodingOption):
    """Options of `rerank`."""

    format: str = hyperparameter(
        "nbest",
        "The list sorted, with new totals (nbest); or the best hypothesis of each sentence, a line each, where a "
        "sentence without hypotheses is an empty line (text).",
        choices=FORMATS,
    )
    word_penalty: bool = hyperparameter(
        False, "Add the feature WordPenalty0, minus the number of words, to a list that lacks it."
    )
