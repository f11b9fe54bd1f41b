"""Options of an export and of its verification: limits and search of the served model, its name and version."""

import dataclasses
import functools
import os
import pathlib
import re
from typing import TYPE_CHECKING

from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.export.versions import MAX_TOKENS, MAX_VERSION, WEIGHT_FORMS
from keras_encdec.runtime.open_output import write_file
from keras_encdec.task_options import ReplacementOptions, ShortlistOptions, TranslationOptions
from keras_encdec.trained_model import (
    TRANSLATE_INSTEAD,
    TranslatingModel,
    check_can_replace_unknown,
    check_can_translate,
)

if TYPE_CHECKING:
    from keras_encdec.decoding.sampler import Sampler
    from keras_encdec.decoding.sampler_registry import RegisteredSampler


_signature = functools.partial(hyperparameter, group="signatures that generate")


@dataclasses.dataclass(frozen=True)
class ServingConfig(ShortlistOptions, TranslationOptions, ReplacementOptions):
    """Limits, search options and stored weights of a served model.

    The server also refuses strings of more than 64 bytes for each of the `max_tokens`. For the penalties see
    `BeamSampler`, for the shortlist `LexicalShortlist`, for unknown words `decoding.UnknownReplacement` and
    `decoding.UnknownSpeller`, and for the forms of the weights `keras_encdec.export.stored_weights`.

    Raises:
        ConfigurationError: a ValueError, for a value out of bounds, and for values that contradict one another.

    Example:

    >>> ServingConfig(beam_size=3).max_tokens
    256
    """

    max_tokens: int = hyperparameter(
        MAX_TOKENS, "Longest phrase that the server accepts, in tokens; longer phrases could overload it.", minimum=1
    )
    beam_size: int = _signature(
        5,
        "For the signature `generate`: number of targets that the search keeps and returns for each source.",
        minimum=1,
        maximum=100,
    )
    length_penalty: float = _signature(
        0.0, "For the signature `generate`: rank by ln p / ((5 + tokens) / 6)^x; 0 for ln p.", minimum=0.0, maximum=10.0
    )
    coverage_penalty: float = _signature(
        0.0,
        "For the signature `generate` with a model with attention: weight of the penalty for source words that receive "
        "little attention.",
        minimum=0.0,
        maximum=1000.0,
    )
    suppress_unknown: bool = _signature(
        False, "Never generate the unknown word, with any signature; otherwise it is written <unk>."
    )
    top_k: int | None = _signature(
        None,
        "For the signature `sample`: draw only from this many of the most probable words. Default: all words.",
        minimum=1,
    )
    top_p: float = _signature(
        1.0,
        "For the signature `sample`: draw from the most probable words whose probabilities add up to this value.",
        above=0.0,
        maximum=1.0,
    )
    weights: str = hyperparameter(
        "float32",
        "How weights are stored: bfloat16 takes half of the space and int8 a quarter, with a scale for each row or "
        "column of a matrix. The server computes in float32 with the rounded weights.",
        choices=WEIGHT_FORMS,
    )

    def check(self) -> None:
        super().check()
        if self.replace_unknown and self.suppress_unknown:
            raise ConfigurationError(
                "found {replace_unknown} with {suppress_unknown}, which never generates <unk>; drop one of them"
            )
        if self.word_translations is not None and self.suppress_unknown:
            raise ConfigurationError(
                "found {word_translations} with {suppress_unknown}, with which no word is spelled; drop one of them"
            )

    def check_model(self, model: TranslatingModel) -> None:
        """Checks that a model suits the options.

        Raises:
            ConfigurationError: a ValueError, for options that need attention, position words, or a model that spells
                words or does not.
        """
        if self.coverage_penalty and not model.has_attention:
            raise ConfigurationError("found {coverage_penalty} with a model that has no attention; drop it")
        if self.word_translations:
            check_can_translate(model.spells_words, draws=False)
        if self.replace_unknown:
            findable = model.has_attention, model.has_position_words
            check_can_replace_unknown(*findable, model.spells_words, TRANSLATE_INSTEAD)

    def served_sampler(self, entry: "RegisteredSampler") -> "Sampler":
        """Makes the sampler of a signature, with the options of this configuration that the sampler has."""
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
        None,
        "Number of the version. Default: one more than the newest version.",
        minimum=1,
        maximum=MAX_VERSION,
        group="versions and models.config",
    )
    model_name: str = hyperparameter("encdec", "Name of the model on the server.", group="versions and models.config")
    base_path: str | None = hyperparameter(
        None,
        "Path of the export folder as the server sees it, if it differs, as in a container: /models/encdec. Later "
        "exports keep it.",
        group="versions and models.config",
    )
    raw_text: bool = hyperparameter(
        False, "Read raw text instead of tokens; operations of tensorflow-text tokenize it in the graph."
    )

    def check(self) -> None:
        super().check()
        if not self.model_name:
            raise ConfigurationError("found an empty {model_name}, expected a name")
        if re.search("[/:]", self.model_name):
            expected = "expected a name without / and :, for the paths of REST"
            raise ConfigurationError(f"found {{model_name}}=%s, {expected}", self.model_name)
        if self.base_path is not None and not re.match("/|[a-z0-9]+://", self.base_path):
            raise ConfigurationError("found {base_path}=%s, expected an absolute path or a URL", self.base_path)

    @property
    def serving_config(self) -> ServingConfig:
        """The limits and search options, without the version, the name and the input."""
        names = (parameter.name for parameter in ServingConfig.hyperparameters())
        return ServingConfig(**{name: getattr(self, name) for name in names})


@dataclasses.dataclass(frozen=True)
class VerificationOptions(Configuration):
    """Options of `verify_export`."""

    version: int | None = hyperparameter(None, "Version to compare. Default: the newest.", minimum=1)
    backends: tuple[str, ...] = hyperparameter(
        (),
        "Backends of Keras on which the scores of encdec-score are compared as well: tensorflow, jax, torch.",
        choices=("tensorflow", "jax", "torch"),
    )


BATCHING_PARAMETERS = "batching_parameters.txt"
# The server requires that the last size equals the size of its largest batch.
BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


def write_batching_parameters(export_dir: str | os.PathLike[str]) -> None:
    """Writes the server's settings for merging requests. An existing file stays: users edit its numbers."""
    path = pathlib.Path(export_dir) / BATCHING_PARAMETERS
    if path.exists():
        return
    sizes = "".join(f"allowed_batch_sizes: {size}\n" for size in BATCH_SIZES)
    text = f"""# For tensorflow_model_server --enable_batching --batching_parameters_file=.../{BATCHING_PARAMETERS}
# Maximum number of pairs in a batch: the server refuses larger requests. The last allowed size must equal it.
max_batch_size {{ value: {BATCH_SIZES[-1]} }}
{sizes}# How long a request waits for others, in microseconds.
batch_timeout_micros {{ value: 1000 }}
# Number of cores of the server. Initially, it is that of the machine that exported the model.
num_batch_threads {{ value: {os.cpu_count()} }}
# When this number of batches is waiting, the server answers UNAVAILABLE.
max_enqueued_batches {{ value: 1000 }}
"""
    write_file(path, text.encode())
