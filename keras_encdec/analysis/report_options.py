"""Options of a report."""

import dataclasses

from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath
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
        "Maximum number of pairs of the table to score: if it has more, a random sample of them is scored.",
        minimum=1,
    )
    map_words: int = hyperparameter(
        2000, "Number of most frequent source words on the map of words; 0 for no map.", minimum=0
    )
    map_phrases: int = hyperparameter(
        5000, "Number of source phrases of four words or more to draw for the map of phrases; 0 for no map.", minimum=0
    )
    seed: int = hyperparameter(0, "Random seed for all sampling.", minimum=0)

    def check_files(
        self, phrase_table: FilePath | None = None, source: FilePath | None = None, target: FilePath | None = None
    ) -> None:
        """Checks that the files of `report` suit one another and the options.

        Raises:
            ConfigurationError: a ValueError, for a target without a source, or options of a table without a table.
        """
        if target is not None and source is None:
            raise ConfigurationError("found {target} without {source}, expected both: a text and its translation")
        if phrase_table is None:
            for name in self.changed():
                if name in ("phrases", "phrases_per_kind", "samples", "pairs", "map_phrases"):
                    raise ConfigurationError(f"found {{{name}}} without {{phrase_table}}, which it needs; give both")
