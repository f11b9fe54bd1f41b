"""Options of evaluating translations."""

import dataclasses

from keras_encdec.configuration import hyperparameter
from keras_encdec.smt.evaluation.corpus_metric import TOKENIZERS
from keras_encdec.smt.evaluation.significance import BOOTSTRAP_SAMPLES, RANDOMIZATION_TRIALS, SEED
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class EvaluationOptions(EncodingOption):
    """Options of `evaluate`."""

    tokenize: str = hyperparameter(
        "13a", "Sacrebleu's tokenizer for BLEU: none for text in tokens, 13a for raw text.", choices=TOKENIZERS
    )
    unescape: bool = hyperparameter(False, "Remove Moses's escapes, such as &apos;, from all texts.")
    bootstrap_samples: int = hyperparameter(
        BOOTSTRAP_SAMPLES, "Number of bootstrap samples of the test set.", minimum=1
    )
    trials: int = hyperparameter(RANDOMIZATION_TRIALS, "Number of trials of approximate randomization.", minimum=1)
    seed: int = hyperparameter(SEED, "Random seed of both tests. The default is sacrebleu's.", minimum=0)
