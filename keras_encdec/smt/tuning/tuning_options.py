"""Options of tuning the weights of features, on n-best lists and in turns with the decoder."""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.smt.evaluation.corpus_metric import TOKENIZERS
from keras_encdec.task_options import EncodingOption

ALGORITHMS = ("mert", "mira", "pro")
METRICS = ("bleu", "chrf")


@dataclasses.dataclass(frozen=True)
class WeightSearchOptions(Configuration):
    """How weights are searched for."""

    algorithm: str = hyperparameter("mert", "Search for the weights: MERT, batch MIRA or PRO.", choices=ALGORITHMS)
    metric: str = hyperparameter("bleu", "Metric to maximize.", choices=METRICS)
    seeds: int = hyperparameter(
        1, "Number of searches, with the seeds 1, 2 and so on; the best weights are written.", minimum=1
    )
    tokenize: str = hyperparameter(
        "none", "Sacrebleu's tokenizer for BLEU; none for text in tokens.", choices=TOKENIZERS
    )


@dataclasses.dataclass(frozen=True)
class TuningOptions(WeightSearchOptions, EncodingOption):
    """Options of `tune`."""

    word_penalty: bool = hyperparameter(
        False, "Add the feature WordPenalty0, minus the number of words, to lists that lack it."
    )
    weights_out: str | None = hyperparameter(None, "File for the best weights, for encdec-rerank --weights.")
    moses_ini_out: str | None = hyperparameter(None, "File for the moses.ini of --weights with the best weights.")
    all_weights_out: str | None = hyperparameter(
        None, "Directory for the weights of each seed, in files weights.1 and so on; it is made if it is missing."
    )


@dataclasses.dataclass(frozen=True)
class DecoderTuningOptions(WeightSearchOptions):
    """Options of `tune_decoder`, apart from those of the decoder."""

    rounds: int = hyperparameter(
        8,
        "Maximum number of translations of the sentences. The weights are tuned between two of them; with 1, the "
        "initial weights stay as they are.",
        minimum=1,
    )
