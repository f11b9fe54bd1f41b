"""Options of the phrase-based decoder."""

import dataclasses

from keras_encdec.configuration import hyperparameter
from keras_encdec.task_options import EncodingOption, ShardOptions


@dataclasses.dataclass(frozen=True)
class DecodingOptions(EncodingOption, ShardOptions):
    """Options of `decode_nbest`. By default, the limits of the search are those of Moses."""

    number_of_processes: int | None = hyperparameter(
        None,
        "Processes that share the work. Default: the number of processors; of Ray, as many as its processors allow.",
        minimum=1,
    )
    nbest_size: int = hyperparameter(100, "Maximum number of hypotheses per sentence, all distinct.", minimum=1)
    pop_limit: int = hyperparameter(
        300,
        "Number of hypotheses that are tried for each number of translated words. A higher number takes longer and "
        "finds translations with higher totals.",
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
    # Ranking derivations recurses once for each phrase. More phrases would exceed Python's recursion limit.
    max_sentence_length: int = hyperparameter(
        100, "Maximum number of words in a sentence; a longer one is an error.", minimum=1, maximum=500
    )

    @property
    def in_shards(self) -> bool:
        """Whether the task works in shards. Several processes share the work without shards, too."""
        return bool(self.shard_lines or self.engine != "local")
