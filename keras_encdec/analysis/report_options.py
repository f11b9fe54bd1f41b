"""Options of a report."""

import dataclasses

from keras_encdec.configuration import hyperparameter
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class ReportOptions(EncodingOption):
    """Options of `report`: how much it shows."""

    phrases: tuple[str, ...] = hyperparameter(
        (),
        "Source phrase of the table, without Moses's escapes, for the tables of best targets and samples; may be given "
        "several times. Default: frequent and rare phrases of four words or more are drawn.",
    )
    phrases_per_kind: int = hyperparameter(5, "Number of frequent phrases, and of rare ones, to draw.", minimum=1)
    samples: int = hyperparameter(50, "Number of targets to draw from the model for each phrase.", minimum=1)
    pairs: int = hyperparameter(
        100_000,
        "Largest number of pairs of the table to score. Of a larger table, a random sample is scored.",
        minimum=1,
    )
    map_words: int = hyperparameter(
        2000, "Number of most frequent source words on the map of words; 0 for no map.", minimum=0
    )
    map_phrases: int = hyperparameter(
        5000, "Number of source phrases of four words or more to draw for the map of phrases; 0 for no map.", minimum=0
    )
    seed: int = hyperparameter(0, "Random seed for all sampling.", minimum=0)
