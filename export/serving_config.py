"""What can be chosen when a model is exported: limits and search of the served model, its name and version."""

import dataclasses
import os
import pathlib
from typing import TYPE_CHECKING

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.export.versions import LARGEST
from keras_encdec.formats import open_output

if TYPE_CHECKING:
    from keras_encdec.decoding.sampler import Sampler
    from keras_encdec.decoding.samplers import RegisteredSampler


@dataclasses.dataclass(frozen=True)
class ServingConfig(Configuration):
    """Limits and search of a served model.

    Attributes:
        max_tokens: int. Most tokens of a phrase, the end of sequence not counted. Longer phrases are refused, and so
            are strings of more than 64 times as many bytes.
        beam_size: int. Of the signature `generate`: targets that its search keeps and returns for each source.
        length_penalty: float. Of `generate`: targets of T tokens are ranked by log p / ((5 + T) / 6) ** length_penalty.
        coverage_penalty: float. Of `generate`, and a model with attention: see `BeamSampler`.
        suppress_unknown: bool. Whether to generate no unknown words.
        replace_unknown: bool. Whether unknown words in targets are replaced from the source, of a model with attention
            or position words: see `decoding.UnknownReplacement`.
        dictionary: str. File of translations for it, which become part of the graph; see `read_dictionary`.
        top_k: int. Of `sample`: number of the most probable words that are drawn from; `None` for all.
        top_p: float. Of `sample`: draw from the fewest most probable words that have this probability together.

    Raises:
        ConfigurationError: a ValueError, for a value out of bounds, and for values that contradict one another.

    Example:

    >>> ServingConfig(beam_size=3).max_tokens
    256
    """

    max_tokens: int = hyperparameter(
        256, "Longest phrase that is scored, in tokens; longer ones are refused, to protect the server.", minimum=1
    )
    beam_size: int = hyperparameter(
        5,
        "Of the signature `generate`: targets that the search keeps and returns for each source.",
        minimum=1,
        maximum=100,
    )
    length_penalty: float = hyperparameter(
        0.0, "Of the signature `generate`: rank by ln p / ((5 + tokens) / 6)^x; 0 for ln p.", minimum=0.0
    )
    coverage_penalty: float = hyperparameter(
        0.0,
        "Of the signature `generate` of a model with attention: weight of the penalty for source words that are left "
        "unattended.",
        minimum=0.0,
    )
    suppress_unknown: bool = hyperparameter(
        False, "Generate no unknown word, whatever the signature; otherwise it is written <unk>."
    )
    replace_unknown: bool = hyperparameter(
        False,
        "Replace each unknown word by the translation of the source word it attends to, or that its position word "
        "names, whatever the signature; see the dictionary.",
    )
    dictionary: str | None = hyperparameter(
        None,
        "With --replace_unknown: file of lines of a source word, a tab and its translation. Other source words are "
        "copied.",
    )
    top_k: int | None = hyperparameter(
        None, "Of the signature `sample`: draw from this number of most probable words; all if not given.", minimum=1
    )
    top_p: float = hyperparameter(
        1.0,
        "Of the signature `sample`: draw from the most probable words that have this probability together.",
        above=0.0,
        maximum=1.0,
    )

    def check(self) -> None:
        if self.replace_unknown and self.suppress_unknown:
            raise ConfigurationError(
                "found {replace_unknown} with {suppress_unknown}, which never generates unknown words; drop one of them"
            )
        if self.dictionary and not self.replace_unknown:
            raise ConfigurationError("found {dictionary} without {replace_unknown}, expected both")

    def served_sampler(self, entry: "RegisteredSampler") -> "Sampler":
        """The sampler of a signature, with the options here that it shares."""
        options = self.to_dict()
        options["num_beams"] = options["num_best"] = self.beam_size
        names = {parameter.name for parameter in entry.sampler_class.hyperparameters()}
        return entry.served_sampler(**{name: value for name, value in options.items() if name in names})


@dataclasses.dataclass(frozen=True)
class ExportOptions(ServingConfig):
    """Options of `export_model`.

    Raises:
        ConfigurationError: a ValueError, for a value out of bounds, and for values that contradict one another.
    """

    version: int | None = hyperparameter(
        None, "Number of the version. Default: one more than the newest there.", minimum=1, maximum=LARGEST
    )
    model_name: str = hyperparameter("encdec", "Name of the model on the server.")
    raw_text: bool = hyperparameter(
        False, "Read raw text, tokenized in the graph by operations of tensorflow-text, and not tokens."
    )

    def check(self) -> None:
        super().check()
        if not self.model_name:
            raise ConfigurationError("found an empty {model_name}, expected a name")

    @property
    def serving_config(self) -> ServingConfig:
        """The limits and the search alone."""
        names = (parameter.name for parameter in ServingConfig.hyperparameters())
        return ServingConfig(**{name: getattr(self, name) for name in names})


BATCHING_PARAMETERS = "batching_parameters.txt"
# The server demands that the last one is its largest batch.
BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def write_batching_parameters(export_dir: str | os.PathLike) -> None:
    """Writes how the server merges requests, unless there is such a file: users edit its numbers."""
    path = pathlib.Path(export_dir) / BATCHING_PARAMETERS
    if path.exists():
        return
    sizes = "".join(f"allowed_batch_sizes: {size}\n" for size in BATCH_SIZES)
    text = f"""# For tensorflow_model_server --enable_batching --batching_parameters_file=.../{BATCHING_PARAMETERS}
# Pairs in a batch: a request of more is refused. The last allowed size must be the same.
max_batch_size {{ value: {BATCH_SIZES[-1]} }}
{sizes}# How long a request waits for others, in microseconds.
batch_timeout_micros {{ value: 1000 }}
# The number of the server's cores: here of the machine that exported the model.
num_batch_threads {{ value: {os.cpu_count()} }}
# Further requests are UNAVAILABLE.
max_enqueued_batches {{ value: 1000 }}
"""
    with open_output(path) as file:
        file.write(text.encode())
