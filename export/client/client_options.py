"""Options of the calls of a server."""

import dataclasses

from keras_encdec.configuration import Configuration, hyperparameter
from keras_encdec.export.client.connection import DEADLINE, IN_FLIGHT
from keras_encdec.export.client.server_error import ModelName
from keras_encdec.export.versions import LARGEST
from keras_encdec.formats import ColumnKind, format_names
from keras_encdec.scoring.scoring_options import ColumnOptions
from keras_encdec.task_options import EncodingOption


@dataclasses.dataclass(frozen=True)
class ConnectionOptions(Configuration):
    """Which model on a server to call, and how long a call may take: options of `server_health` and `server_metadata`.

    Raises:
        ConfigurationError: a ValueError, for a version together with a label.
    """

    model_name: str = hyperparameter("encdec", "Name of the model on the server.")
    version: int | None = hyperparameter(
        None, "Version of the model. Default: the server's choice, the latest.", minimum=1, maximum=LARGEST
    )
    label: str | None = hyperparameter(None, "Label of the version, such as stable.")
    deadline: float = hyperparameter(DEADLINE, "Seconds that a call may take.", minimum=1e-3)
    patience: float | None = hyperparameter(
        None,
        "Seconds for which a call that finds the server unavailable is repeated, with growing pauses. Default: 60; "
        "with --health 0.",
        minimum=0.0,
    )

    @property
    def model(self) -> ModelName:
        """The model to call."""
        return ModelName(self.model_name, self.version, self.label)

    def check(self) -> None:
        ModelName(self.model_name, self.version, self.label)  # raises for a version together with a label


@dataclasses.dataclass(frozen=True)
class ClientOptions(EncodingOption, ColumnOptions, ConnectionOptions):
    """Options of `score_file_with_server`."""

    format: str = hyperparameter(
        "phrase_table",
        "Format of the input. A phrase table gets probabilities as new scores, a TSV file gets ln p in new columns.",
        choices=lambda: format_names(ColumnKind.LOG_PROB, has_source_file=False),
    )
    on_error: str = hyperparameter(
        "stop",
        "What happens at a line that is malformed or that the server refuses: the command stops (stop), or writes the "
        "line with a neutral score and counts it (keep).",
        choices=("stop", "keep"),
    )
    batch_size: int = hyperparameter(64, "Pairs per request.", minimum=1)
    in_flight: int = hyperparameter(IN_FLIGHT, "Concurrent requests.", minimum=1)
