"""Hyper-parameters of training."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, Self

from keras_encdec.architectures.architecture_registry import architecture, load_preset
from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter
from keras_encdec.pruning.pruning_options import SCHEME_HELP, SCHEMES
from keras_encdec.runtime.files import checked_utf8
from keras_encdec.trainers.training_data import TrainingData

# The hyper-parameters that limit a training, and all that can end it.
LIMITS = ("updates", "epochs", "minutes")
ENDS = (*LIMITS, "patience", "patience_epochs")
# The hyper-parameters that need pairs to validate on.
VALIDATING = ("patience", "patience_epochs", "validation_bleu", "average_rounds")
_CHO = "Cho et al., 2014, section 4.1"
_LUONG = "Luong et al., 2015, section 4.1"
_updates = functools.partial(hyperparameter, group="updates")
_rounds = functools.partial(hyperparameter, group="rounds and checkpoints")
_end = functools.partial(hyperparameter, group="when to stop")
_devices = functools.partial(hyperparameter, group="devices and speed")


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Configuration):
    """Which model is trained, and how. The defaults are the values in the main text of Cho et al., 2014.

    Attributes:
        model: configuration of the architecture, or a dict of its hyper-parameters. Defaults to the architecture's
            defaults. All other attributes are hyper-parameters of training.

    Example:

    >>> config = TrainingConfig(architecture="recurrent", model={"cell": "gru", "units": 64}, epochs=2)
    >>> config.model.cell, config.model.layers, config.optimizer
    ('gru', 2, 'adadelta')
    """

    architecture: str = hyperparameter(
        "encdec",
        "The model: the paper's RNN Encoder-Decoder (encdec), stacked recurrent layers for sentences (recurrent), or a "
        "language model, p(target) without a source: recurrent (language_model), or the paper's CSLM, a feed-forward "
        "model of n-grams (cslm).",
        fixed=True,
    )
    model: Configuration | Mapping[str, object] | None = None
    initial_model: str | None = hyperparameter(
        None,
        "Directory of a trained model, whose weights and vocabularies the training begins with; the hyper-parameters "
        "of the model must be the same, apart from dropout. A hybrid model may begin with a word-based model.",
        fixed=True,
        is_path=True,
    )
    keep_words: bool = hyperparameter(
        False,
        "With an initial model: train only the character weights of a hybrid model; all others keep their values.",
        fixed=True,
        needs="initial_model",
    )
    keep_pruned: bool = hyperparameter(
        False,
        "With an initial model that was pruned: keep its pruned weights at zero.",
        fixed=True,
        group="pruning",
        needs="initial_model",
    )
    gradual_pruning: float | None = hyperparameter(
        None,
        "Prune this share of the weights during the training: more and more of the smallest, until three quarters of "
        "the training are done. Only rounds with the full share can give the best model.",
        above=0,
        maximum=1,
        fixed=True,
        group="pruning",
    )
    pruning_scheme: str = hyperparameter(
        "class_blind",
        f"With gradual pruning. {SCHEME_HELP}",
        choices=SCHEMES,
        fixed=True,
        group="pruning",
        needs="gradual_pruning",
    )
    updates: int | None = _end(None, "Stop after this number of updates.", minimum=1)
    epochs: float | None = _end(
        None, "Stop after this number of passes over the pairs.", above=0, maximum=1e9, published={_LUONG: 12.0}
    )
    minutes: float | None = _end(
        None, "Stop after this number of minutes of training; compiling does not count.", above=0, maximum=1e9
    )
    patience: int | None = _end(
        None,
        "Stop when validation perplexity, or BLEU where that is measured, has not improved for this number of rounds.",
        minimum=1,
    )
    patience_epochs: float | None = _end(
        None,
        "Stop when validation perplexity, or BLEU where that is measured, has not improved for this number of passes "
        "over the pairs.",
        above=0,
        published={"CSLM of Cho et al., 2014, section 4.1.2": 10.0},
    )
    validation_bleu: bool = _rounds(
        False,
        "After each round, translate the sources of the validation pairs greedily, and choose the best model by BLEU. "
        "Needs sacrebleu.",
        fixed=True,
    )
    round_updates: int = _rounds(
        500,
        "Updates per round: the interval between validations, each of which is followed by a checkpoint.",
        minimum=1,
    )
    checkpoint_minutes: float = _rounds(
        15.0,
        "Also save a checkpoint within a round when the last one is this many minutes old. A killed run loses at most "
        "this time plus that of one validation.",
        above=0,
        maximum=1440,
    )
    optimizer: str = _updates(
        "adadelta",
        "Optimizer; adadelta is the paper's.",
        choices=("adadelta", "adam", "adamw", "rmsprop", "sgd"),
        published={_CHO: "adadelta", _LUONG: "sgd"},
        fixed=True,
    )
    learning_rate: float = _updates(
        1.0,
        "Learning rate (step size). The default is for adadelta and sgd; other optimizers need less, such as 0.001.",
        minimum=0,
        published={_LUONG: 1.0},
    )
    warmup_updates: int = _updates(
        0,
        "Number of updates at the start over which the learning rate rises linearly from near 0 to the value of the "
        "schedule; 0: no warm-up.",
        minimum=0,
        published={"Vaswani et al., 2017, section 5.3": 4000},
    )
    schedule: str = _updates(
        "constant",
        "Schedule of the learning rate: constant, decayed to 0 at the end (linear, cosine), or halved repeatedly.",
        choices=("constant", "linear", "cosine", "halving"),
        published={_LUONG: "halving"},
    )
    halving_start: float = _updates(
        5.0,
        "For the schedule halving: epochs before the first halving.",
        minimum=0,
        maximum=1e9,
        published={_LUONG: 8.0},
    )
    halving_every: float = _updates(
        1.0, "For the schedule halving: epochs from one halving to the next.", minimum=1e-6, published={_LUONG: 1.0}
    )
    reduction: str = _updates(
        "sum",
        "How the losses of the pairs in a batch are combined, which sets the scale of the gradient that is clipped.",
        choices=("sum", "mean"),
        published={_LUONG: "mean"},
        fixed=True,
    )
    clip_norm: float = _updates(
        1.0,
        "Clip the global norm of the gradient to this bound; 0: no clipping.",
        minimum=0,
        maximum=1e30,
        published={"code of the authors of Cho et al., 2014": 1.0, _LUONG: 5.0},
        fixed=True,
    )
    clip_elements: float = _updates(
        0.0, "Clip each element of the gradient to this bound, before its norm; 0: no clipping.", minimum=0, fixed=True
    )
    label_smoothing: float = _updates(
        0.0,
        "Share of the probability of each training token that is spread evenly over all words; not used in validation.",
        minimum=0,
        maximum=0.99,
        published={"Vaswani et al., 2017, section 5.4": 0.1},
        fixed=True,
    )
    average_rounds: int = _rounds(
        0,
        "At the end, average the weights of this many of the last rounds, and save the average if it is better than "
        "the best round; 0: no average.",
        minimum=0,
    )
    batch_size: int = _updates(64, "Pairs per update.", minimum=1, published={_CHO: 64, _LUONG: 128}, fixed=True)
    devices: str = _devices(
        "1",
        "Devices that share each batch: a number or all. Under PyTorch, and on several machines, a launcher starts the "
        "processes, and this is the number of devices of all processes. The batch size must be a multiple of it.",
    )
    dtype_policy: str = _devices(
        "float32",
        "Keras dtype policy. Dtypes of fewer bits than float32 are faster only on hardware that supports them: a GPU; "
        "for bfloat16 a CPU with AVX512_BF16 or AMX-BF16, or ARM's BF16; for float16 a CPU with AVX512_FP16 or "
        "AMX-FP16, or ARM's FP16.",
        choices=("float32", "mixed_bfloat16", "mixed_float16", "bfloat16"),
        fixed=True,
    )
    jit_compile: str = _devices(
        "auto",
        "Compile with XLA; auto: if that is faster on the backend. Under PyTorch on a GPU, auto records the step of "
        "each batch shape as a CUDA graph.",
        choices=("auto", "true", "false"),
    )
    pad_to: tuple[int, ...] = _devices(
        (4, 6, 8, 12, 16, 24, 32),
        "Widths in tokens that batches are padded to if each shape is compiled: fewer widths need less compilation, "
        "more widths less padding.",
        minimum=1,
    )
    seed: int = hyperparameter(
        1,
        "Random seed for the weights, the held-out pairs and the order of the batches.",
        minimum=0,
        maximum=2**31 - 1,
        fixed=True,
    )
    tensorboard: bool = _rounds(
        True, "Write TensorBoard logs to logs/ in the model directory, if TensorFlow and tensorboard are installed."
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self.model_config)
        super().__post_init__()

    @property
    def model_config(self) -> Configuration:
        """The configuration of the model; raises ConfigurationError if it is not one of the architecture."""
        kind = architecture(self.architecture).config
        if isinstance(self.model, Mapping | None):
            return kind.from_dict(self.model or {})
        if type(self.model) is not kind:
            given = type(self.model).__name__
            raise ConfigurationError(
                "found a %s with {architecture}=%s, expected a %s", given, self.architecture, kind.__name__
            )
        return self.model

    def check(self) -> None:
        if all(getattr(self, name) is None for name in ENDS):
            raise ConfigurationError(
                "found nothing that says when the training ends; give one of {updates}, {epochs}, {minutes}, "
                "{patience} and {patience_epochs}"
            )
        is_unlimited = all(getattr(self, name) is None for name in LIMITS)
        if self.schedule in ("linear", "cosine") and is_unlimited:
            raise ConfigurationError(
                "found {schedule}=%s, expected {updates}, {epochs} or {minutes} with it", self.schedule
            )
        if self.gradual_pruning and is_unlimited:
            raise ConfigurationError("found {gradual_pruning}, expected {updates}, {epochs} or {minutes} with it")
        pruning = next((name for name in ("keep_pruned", "gradual_pruning") if getattr(self, name)), None)
        if pruning and self.devices != "1":
            raise ConfigurationError(
                f"found {{{pruning}}} with {{devices}}=%s, expected it with 1 device", self.devices
            )
        if self.devices != "all" and not (self.devices.isdecimal() and int(self.devices)):
            raise ConfigurationError("found {devices}=%r, expected 1 or more, or all", self.devices)
        if self.optimizer in ("adam", "adamw", "rmsprop") and self.learning_rate >= 1:
            raise ConfigurationError(
                "found {optimizer}=%s with {learning_rate}=%g, with which it diverges; give a smaller {learning_rate}, "
                "such as 0.001",
                self.optimizer,
                self.learning_rate,
            )
        if self.dtype_policy == "bfloat16" and self.optimizer in ("adam", "adamw"):
            raise ConfigurationError(
                "found {optimizer}=%s with {dtype_policy}=bfloat16, which rounds the optimizer's decay of 0.999 to 1, "
                "so that no weight changes; give {dtype_policy}=mixed_bfloat16",
                self.optimizer,
            )
        characters = self.model_config.to_dict().get("characters", "none")
        if characters != "none" and self.devices != "1":
            raise ConfigurationError(
                "found {characters}=%s with {devices}=%s, expected 1 device", characters, self.devices
            )
        if self.keep_words and characters == "none":
            raise ConfigurationError(
                "found {keep_words} with {characters}=%s, expected source, target or both", characters
            )
        if self.keep_words and pruning:
            raise ConfigurationError(f"found {{keep_words}} with {{{pruning}}}, expected one of them")
        if self.validation_bleu and not self.has_source:
            raise ConfigurationError(
                "found {validation_bleu} with {architecture}=%s, which has no source to translate; drop one of the two",
                self.architecture,
            )
        for name in self.changed():
            if name.startswith("halving_") and self.schedule != "halving":
                raise ConfigurationError(
                    f"found {{{name}}} with {{schedule}}=%s, expected it with {{schedule}}=halving", self.schedule
                )

    @property
    def has_source(self) -> bool:
        """Whether the model reads a source; a language model does not."""
        return architecture(self.architecture).has_source

    @classmethod
    def check_names(cls, values: Mapping[str, object]) -> None:
        super().check_names({name: value for name, value in values.items() if name != "model"})

    def to_dict(self) -> dict[str, Any]:
        """Returns the values by name, for `from_dict` and JSON; "model" is a dict of the model's values."""
        return {**super().to_dict(), "model": self.model_config.to_dict()}

    def replace(self, **values: object) -> Self:
        """Returns a copy with other values. For another architecture, `model` has its defaults."""
        if values.get("architecture", self.architecture) != self.architecture:
            values = {"model": None, **values}
        return super().replace(**values)

    @classmethod
    def from_preset(cls, preset: str | os.PathLike[str], **values: Any) -> Self:
        """Reads the configuration of a preset, and overrides some of its hyper-parameters.

        If `values` name another architecture or schedule than the preset, the preset's hyper-parameters of its own
        architecture or schedule are ignored.

        Args:
            preset: str. A name in `keras_encdec.architectures.preset_names()`, or the path of a preset file.
            **values: hyper-parameters, and `model`, a dict of those of the model. They override the preset.

        Raises:
            ConfigurationError: a ValueError, for unknown names and wrong values.
            InputError: if the preset cannot be read or contains an unknown name.
        """
        known = load_preset(preset)
        training, model = dict(known.table(cls, "training")), values.pop("model", None) or {}
        kind = architecture(values.setdefault("architecture", known.architecture))
        if isinstance(model, Mapping):
            names = {parameter.name for parameter in kind.config.hyperparameters()}
            model = {name: value for name, value in known.model_with(model).items() if name in names or name in model}
        if values.get("schedule", "halving") != "halving":
            training = {name: value for name, value in training.items() if not name.startswith("halving_")}
        return cls.from_dict({**training, **values, "model": model})


def check_together(config: TrainingConfig, data: TrainingData) -> None:
    """Checks that the options of the training and those of its data do not contradict one another.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
        InputError: if a path, which settings.toml will contain, is not UTF-8.
    """
    for options in (config, data):
        options.with_paths(options.to_dict(), checked_utf8)
    sides = ("source", "target") if config.has_source else ("target",)
    kinds = dict.fromkeys(sides[0] if kind in sides else kind for kind in data.files)
    alone = "{source} with {target}" if config.has_source else "{target}"
    if not config.has_source:
        source_options = [name for name in ("source", "source_vocabulary", "reverse") if getattr(data, name)]
        if data.has_position_words:
            source_options.append("unknown")
        if source_options:
            raise ConfigurationError(
                f"found {{{source_options[0]}}} with {{architecture}}=%s, which has no source; drop one of the two",
                config.architecture,
            )
    if len(kinds) != 1:
        given = " and ".join(f"{{{name}}}" for name in kinds) or "no data to train on"
        raise ConfigurationError(f"found {given}, expected one of {{phrase_table}}, {{tsv}}, {{input}}, or {alone}")
    if config.has_source and bool(data.source) != bool(data.target):
        raise ConfigurationError("found one of {source} and {target}, expected both")
    if getattr(config.model_config, "spells_words", False) and data.has_position_words:
        characters = config.model_config.to_dict()["characters"]
        raise ConfigurationError("found {characters}=%s with {unknown}=posunk, expected one of them", characters)
    for name in VALIDATING:
        if getattr(config, name) and not data.validation and not data.held_out_fraction:
            raise ConfigurationError(
                f"found {{{name}}} without pairs to validate on; give {{validation}} or {{held_out_fraction}}"
            )
