"""Options of estimating an n-gram language model."""

import dataclasses

from keras_encdec.configuration import hyperparameter
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class NgramOptions(EncodingOption):
    """Options of `estimate_ngrams`."""

    order: int = hyperparameter(5, "Number of words in the longest n-grams.", minimum=1)
