"""The configuration of an experiment: data, a baseline system, features, and the rows of the table."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_encdec.architectures.architecture_registry import TABLES, load_preset
from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.data.alignment import DEFAULT_ALIGNER, DEFAULT_SYMMETRIZATION
from keras_encdec.datasets import libreoffice_en_fr
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.smt.decoder.decoding_options import DecodingOptions
from keras_encdec.smt.extraction.extraction_options import ExtractionOptions
from keras_encdec.smt.ngrams.ngram_estimation import MAX_ORDER, NgramOptions
from keras_encdec.smt.tuning.decoder_tuning import DecoderTuningOptions
from keras_encdec.smt.tuning.tune import TuningOptions
from keras_encdec.trainers.training_config import TrainingConfig, check_together
from keras_encdec.trainers.training_data import TrainingData

SYSTEMS = ("lists", "decoder", "moses")
KINDS = ("phrases", "unknown_words", "language_model", "sentences")
SIDES = [f"{part}_{side}" for part in ("train", "dev", "test") for side in ("source", "target")]


def _declared(options: type[Configuration], name: str, **changed: object) -> Any:
    """Declares a field as in another configuration, with changes such as another default, help or bound."""
    (declared,) = [field for field in dataclasses.fields(options) if field.name == name]
    return hyperparameter(**{"default": declared.default, **declared.metadata, **changed})


@dataclasses.dataclass(frozen=True)
class DataConfig(Configuration):
    """The section `[data]`: parallel, tokenized text, one sentence per line."""

    dataset: str | None = hyperparameter(
        None, "The text that comes with the package, instead of files.", choices=("libreoffice_en_fr",)
    )
    train_source: str | None = hyperparameter(
        None, "Source side of the training text. Only stages that train on it need it.", is_path=True
    )
    train_target: str | None = hyperparameter(None, "Target side of the training text.", is_path=True)
    dev_source: str | None = hyperparameter(None, "Source sentences to tune on.", is_path=True)
    dev_target: str | None = hyperparameter(None, "Reference translations of dev_source.", is_path=True)
    test_source: str | None = hyperparameter(None, "Source sentences to test on.", is_path=True)
    test_target: str | None = hyperparameter(None, "Reference translations of test_source.", is_path=True)

    def check(self) -> None:
        files = self.paths()
        if self.dataset and files:
            raise ConfigurationError("found {dataset} and files of text, expected one or the other")
        for name in SIDES:
            if name not in files and not self.dataset and not name.startswith("train"):
                raise ConfigurationError(f"found no {{{name}}}, expected a file")
        if bool(self.train_source) != bool(self.train_target):
            raise ConfigurationError("found one of {train_source} and {train_target}, expected both or neither")

    @property
    def files(self) -> dict[str, str]:
        """The given files by name, such as "dev_source"."""
        if self.dataset:
            dataset = libreoffice_en_fr()
            return {name: str(getattr(dataset, name)) for name in SIDES}
        return self.paths()


# The systems that make their own n-best lists.
_WITH_OWN_LISTS = ("decoder", "moses")
# Settings for making a file, which have no effect if the file is given.
_TO_MAKE = {"aligner": "phrase_table", "symmetrization": "phrase_table", "ngram_order": "language_model"}
# The systems that use each of these settings of the baseline, and the settings that each system requires.
_USED_BY = {
    **dict.fromkeys(("dev_nbest", "test_nbest"), ("lists",)),
    **dict.fromkeys(("language_model", "nbest_size", *_TO_MAKE), _WITH_OWN_LISTS),
    "rounds": ("decoder",),
    "moses_dir": ("moses",),
}
_REQUIRED = {"lists": ("dev_nbest", "test_nbest", "weights"), "decoder": (), "moses": ("moses_dir",)}


@dataclasses.dataclass(frozen=True)
class BaselineConfig(Configuration):
    """The section `[baseline]`: the translation system that features are added to."""

    system: str = hyperparameter(
        "decoder", "Where the n-best lists come from: files (lists), the package's decoder, or Moses.", choices=SYSTEMS
    )
    phrase_table: str | None = hyperparameter(
        None, "Moses phrase table. Default: extracted from the training text.", is_path=True
    )
    aligner: str = _declared(ExtractionOptions, "aligner", default=DEFAULT_ALIGNER)
    symmetrization: str = _declared(ExtractionOptions, "symmetrization", default=DEFAULT_SYMMETRIZATION)
    language_model: str | None = hyperparameter(
        None,
        "N-gram language model, an ARPA file or a binary file of KenLM. "
        "Default: estimated from the target side of the training text.",
        is_path=True,
    )
    ngram_order: int = _declared(
        NgramOptions, "order", help="Order of the language model that is estimated.", maximum=9
    )
    dev_nbest: str | None = hyperparameter(
        None, "With lists: the n-best list of the sentences to tune on.", is_path=True
    )
    test_nbest: str | None = hyperparameter(
        None, "With lists: the n-best list of the sentences to test on.", is_path=True
    )
    weights: str | None = hyperparameter(
        None,
        "Weights that tuning begins with: moses.ini, or a file of lines such as LM0= 0.5. Required with lists. With "
        "moses: the moses.ini of a whole system, with the phrase table and the language model that it names.",
        is_path=True,
    )
    nbest_size: int = _declared(DecodingOptions, "nbest_size", help="With decoder or moses: hypotheses per sentence.")
    rounds: int = _declared(
        DecoderTuningOptions,
        "rounds",
        default=4,
        help="With decoder: maximum number of translations of the development set. The weights are tuned between two "
        "translations; with 1, the initial weights are used.",
    )
    moses_dir: str | None = hyperparameter(
        None, "With moses: directory of Moses, with its programs in bin/ and its scripts in scripts/.", is_path=True
    )

    @property
    def has_own_models(self) -> bool:
        """Whether the system has its phrase table and language model: that of the lists, or of a moses.ini."""
        return self.system == "lists" or (self.system == "moses" and self.weights is not None)

    def check(self) -> None:
        for name in _REQUIRED[self.system]:
            if not getattr(self, name):
                raise ConfigurationError(f"found {{system}}=%s without {{{name}}}, expected both", self.system)
        if self.system == "decoder" and self.ngram_order > MAX_ORDER:
            raise ConfigurationError(
                "found {ngram_order}=%d with {system}=decoder, expected at most %d, which KenLM reads",
                self.ngram_order,
                MAX_ORDER,
            )
        for name in self.changed():
            systems = _USED_BY.get(name, SYSTEMS)
            if self.system not in systems:
                raise ConfigurationError(
                    f"found {{{name}}} with {{system}}=%s, expected it with %s", self.system, " or ".join(systems)
                )
            if self.has_own_models and name in ("language_model", *_TO_MAKE):
                raise ConfigurationError(
                    f"found {{{name}}} and {{weights}} with {{system}}=moses, expected one of them: this moses.ini "
                    "names the models of its system"
                )
            made = _TO_MAKE.get(name)
            if made and getattr(self, made):
                raise ConfigurationError(f"found {{{name}}} and the file {{{made}}}, expected one of them")


@dataclasses.dataclass(frozen=True)
class TuningConfig(Configuration):
    """The section `[tuning]`: how the weights of each row are tuned."""

    algorithm: str = _declared(TuningOptions, "algorithm")
    metric: str = _declared(TuningOptions, "metric", help="Metric to maximize and to report.")
    seeds: int = _declared(
        TuningOptions, "seeds", default=5, help="Number of tunings of each row, with the seeds 1, 2 and so on."
    )


# The settings of `encdec-train` that say what to train on, which the kind of a feature determines.
_TEXT = ("phrase_table", "tsv", "source", "target", "input", "format")
# The files of the experiment that a model of each kind is trained and validated on, by their names in TrainingData and
# in `train_model`.
_TRAINED_ON = {"phrases": ("phrase_table",), "language_model": ("target",), "sentences": ("source", "target")}
VALIDATED_ON = {
    "phrases": ("validation",),
    "language_model": ("validation_target",),
    "sentences": ("validation_source", "validation_target"),
}


@dataclasses.dataclass(frozen=True)
class FeatureConfig(Configuration):
    """A section `[features.NAME]`: a model whose score is added to the n-best lists as the feature `NAME0`.

    The tables `model`, `training` and `data` below it hold hyper-parameters of `encdec-train`, as in a preset.
    """

    kind: str = hyperparameter(
        "phrases",
        "What the model scores: the phrase pairs of a hypothesis, as in the paper (phrases); the number of target "
        "words outside another feature's shortlist, the paper's word penalty (unknown_words); the target "
        "(language_model); or the sentence pair (sentences).",
        choices=KINDS,
    )
    model_dir: str | None = hyperparameter(
        None, "Directory of a trained model. Default: the experiment trains a model.", is_path=True
    )
    preset: str | None = hyperparameter(None, "Preset of the training, by name or as a file.")
    of: str | None = hyperparameter(
        None, "With unknown_words: the feature of kind phrases whose shortlist decides which words are unknown."
    )
    counts: bool = hyperparameter(
        False, "With sentences: also add Unknown0 and Length0, the numbers of unknown target words and of tokens."
    )
    model: Mapping[str, object] = dataclasses.field(default_factory=dict)
    training: Mapping[str, object] = dataclasses.field(default_factory=dict)
    data: Mapping[str, object] = dataclasses.field(default_factory=dict)

    def check(self) -> None:
        tables = [name for name in TABLES if getattr(self, name)]
        trained = [name for name in ("preset", *tables) if getattr(self, name)]
        if self.counts and self.kind != "sentences":
            raise ConfigurationError("found {counts} with {kind}=%s, expected it with sentences", self.kind)
        if self.kind == "unknown_words":
            if self.model_dir or trained:
                raise ConfigurationError("found a model with {kind}=unknown_words, expected {of} only")
            if not self.of:
                raise ConfigurationError("found {kind}=unknown_words without {of}, expected the name of a feature")
            return
        if self.of:
            raise ConfigurationError("found {of} with {kind}=%s, expected it with unknown_words", self.kind)
        if self.model_dir and trained:
            raise ConfigurationError(f"found {{model_dir}} and {{{trained[0]}}}, expected one of them")
        if not self.model_dir and not self.preset:
            raise ConfigurationError("found neither {model_dir} nor {preset}, expected one of them")

    def training_settings(self) -> tuple[TrainingConfig, TrainingData]:
        """Returns the settings of `trainers.train`, without the files to train on.

        Raises:
            ConfigurationError: for settings that cannot be used, or a feature without a preset.
            InputError: for a preset that cannot be read.
        """
        if self.preset is None:
            raise ConfigurationError("found a model to train without {preset}, expected the name of a preset")
        preset = load_preset(self.preset)
        TrainingConfig.check_names(self.training)
        TrainingData.check_names(self.data)
        for name in _TEXT:
            if name in self.data:
                raise ConfigurationError(
                    f"found {{{name}}} in its table data, expected none: {{kind}} decides what the model is trained on"
                )
        data = TrainingData.from_preset(preset.path, **self.data)
        if data.reverse:
            raise ConfigurationError("found {reverse}, expected a model of p(target | source), which a feature needs")
        if not FileEncoding(data.encoding).is_utf8:
            raise ConfigurationError("found {encoding}=%s, expected UTF-8, as all text of an experiment", data.encoding)
        config = TrainingConfig.from_preset(preset.path, model=dict(self.model), **self.training)
        if config.has_source == (self.kind == "language_model"):
            raise ConfigurationError(
                "found {kind}=%s with {architecture}=%s, which has %s source; give another {kind} or {preset}",
                self.kind,
                config.architecture,
                "a" if config.has_source else "no",
            )
        default = () if self.kind == "phrases" else VALIDATED_ON[self.kind]
        validation = self.validation(data) or default
        check_together(config, data.replace(validation=validation, **dict.fromkeys(_TRAINED_ON[self.kind], "file")))
        return config, data

    def validation(self, data: TrainingData) -> tuple[str, ...]:
        """Returns the validation files in the feature's table `data`, not those of its preset; see `VALIDATED_ON`.

        Args:
            data: TrainingData, as `training_settings` returns it.
        """
        return data.validation if "validation" in self.data else ()


@dataclasses.dataclass(frozen=True)
class RowConfig(Configuration):
    """A table `[[rows]]`: a row of the result, a system with some of the features."""

    name: str = hyperparameter("", "Name of the row.")
    features: tuple[str, ...] = hyperparameter((), "Names of the features that are added to the baseline.")
    published_gain: float | None = hyperparameter(
        None, "Published gain of such a system over the baseline, shown next to the measured gain."
    )

    def check(self) -> None:
        if not self.name:
            raise ConfigurationError("found a row without {name}, expected the name of the row")


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """All settings of an experiment.

    Attributes:
        title: str. Heading of the results.
        data: DataConfig.
        baseline: BaselineConfig.
        tuning: TuningConfig.
        features: dict from name to FeatureConfig.
        rows: tuple of RowConfig. The first row is the baseline of all comparisons.
    """

    title: str
    data: DataConfig
    baseline: BaselineConfig
    tuning: TuningConfig
    features: Mapping[str, FeatureConfig]
    rows: tuple[RowConfig, ...]
