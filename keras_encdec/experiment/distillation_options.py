"""Options of `distill`, which can be read without Keras."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping, Sequence

from keras_encdec.architectures.architecture_registry import architecture, load_preset
from keras_encdec.configuration import ConfigurationError, hyperparameter
from keras_encdec.errors import FilePath, InputError
from keras_encdec.formats.encodings import FileEncoding
from keras_encdec.model_config import read_model_config
from keras_encdec.runtime.imports import check_extra
from keras_encdec.task_options import ReplacementOptions
from keras_encdec.trained_model import (
    TrainedModel,
    check_can_replace_unknown,
    check_direction,
    check_ensemble,
    check_has_source,
)
from keras_encdec.trainers.settings_checks import check_initial_model
from keras_encdec.trainers.training_config import ENDS, TrainingConfig
from keras_encdec.trainers.training_data import TrainingData

# Settings of the training of a student that begins with the weights of its teacher or of the first student, in place of
# those of the preset `student`, which are for random weights.
TRAINED_BEFORE = {"learning_rate": 0.001, "warmup_updates": 100}
FROM_TEACHER_EPOCHS = 7
# Length of the training of a student that begins with the weights of the first student, as a share of the first's.
FURTHER_SHARE = 0.6
# The arguments of `distill` that are files.
TEXTS = ("source", "target", "dev_source", "dev_target", "test_source", "test_target")
_student = functools.partial(hyperparameter, group="student's training")
_teacher = functools.partial(hyperparameter, group="teacher's translations")


@dataclasses.dataclass(frozen=True)
class DistillationOptions(ReplacementOptions):
    """Options of `distill`.

    Raises:
        ConfigurationError: a ValueError, for options that contradict one another.
    """

    preset: str = _student("student", "Preset of the student's training, by name or as a file.")
    from_teacher: bool = _student(
        False,
        "Begin the student's training with the weights of the teacher, or of the first of several. The student then "
        "has this teacher's size, not the preset's, and needs few epochs.",
    )
    students: int = _student(
        1,
        "Number of students, which are trained one after another with different seeds. Their average is the student. "
        "Those after the first begin with its weights and are trained 0.6 times as long; with --from_teacher, all "
        "begin with the teacher's weights and are trained equally long.",
        minimum=1,
        published={"Wortsman et al., 2022, section 2": "several, averaged"},
    )
    keep: str = _teacher(
        "best",
        "Which of the teachers' translations of a sentence the student learns: the best; or, of all that the beam "
        "found, the closest to the reference, by smoothed sentence BLEU.",
        choices=("best", "closest"),
        published={"Kim and Rush, 2016, section 3.2": "best", "Kim and Rush, 2016, section 3.3": "closest"},
    )
    translations: int = _teacher(
        1,
        "Number of the teachers' translations of each sentence that the student learns: the best ones, or those "
        "closest to the reference. A pass over the pairs takes that many times as long; without --epochs, there are "
        "that many times fewer passes. Of several students, the first learns one translation, unless it begins with "
        "the teacher's weights.",
        minimum=1,
    )
    num_beams: int = _teacher(
        12, "Number of partial translations that the teachers' beam search keeps for each sentence.", minimum=1
    )
    length_penalty: float = _teacher(
        0.0,
        "The teachers rank hypotheses by ln p / ((5 + tokens) / 6)^x for this x; 0: by ln p.",
        minimum=0,
        maximum=10,
    )
    number_of_processes: int | None = _teacher(
        None, "Processes that share the teachers' translation. Default: this process alone.", minimum=1
    )
    minutes: float | None = _student(None, "Minutes of the student's training. Default: the preset's.", above=0)
    updates: int | None = _student(None, "Updates of the student's training. Default: the preset's.", minimum=1)
    epochs: float | None = _student(
        None, "Passes of the student's training over the pairs. Default: the preset's.", above=0
    )

    def check(self) -> None:
        if self.translations > self.num_beams:
            raise ConfigurationError(
                "found {translations}=%d, expected 1 to {num_beams}, %d", self.translations, self.num_beams
            )
        if self.keep == "closest" and self.num_beams == 1:
            raise ConfigurationError("found {keep}=closest with {num_beams}=1, expected 2 or more to choose from")

    def training_config(
        self,
        teachers: Sequence[pathlib.Path],
        training: Mapping[str, object] | None = None,
        model: Mapping[str, object] | None = None,
    ) -> TrainingConfig:
        """Returns the settings of the student's training.

        Args:
            teachers: model directories of the teachers.
            training, model: dicts. Hyper-parameters that override the preset's. Default to none.

        Raises:
            ConfigurationError: a ValueError, for settings that cannot be used, such as training without an end.
            InputError: if the preset, or with `from_teacher` the first teacher's configuration, cannot be read.
        """
        limits = {"minutes": self.minutes, "updates": self.updates, "epochs": self.epochs}
        given = {**{name: value for name, value in limits.items() if value is not None}, **(training or {})}
        settings: dict[str, object] = dict(given)
        if self.from_teacher:
            if self.preset == DistillationOptions.preset:
                settings = {**TRAINED_BEFORE, "epochs": FROM_TEACHER_EPOCHS, **given}
            known = read_model_config(teachers[0])
            names = {parameter.name for parameter in architecture(known["architecture"]).config.hyperparameters()}
            sizes = {name: value for name, value in known["model"].items() if name in names}
            settings |= {"architecture": known["architecture"], "initial_model": str(teachers[0])}
            model = {**sizes, **(model or {})}
        self._check_end(settings)
        config = TrainingConfig.from_preset(self.preset, model=dict(model or {}), **settings)
        if self.first_learns_one or config.epochs is None or "epochs" in given:
            return config
        return config.replace(epochs=config.epochs / self.translations)

    def _check_end(self, given: Mapping[str, object]) -> None:
        """Raises ConfigurationError if neither the preset nor the hyper-parameters given say when training ends."""
        settings = {**load_preset(self.preset).table(TrainingConfig, "training"), **given}
        if all(settings.get(name) is None for name in ENDS):
            raise ConfigurationError(
                "found nothing in {preset}=%s that says when the training ends; give one of {updates}, {epochs} and "
                "{minutes}",
                self.preset,
            )

    def further_config(self, first: TrainingConfig, number: int) -> TrainingConfig:
        """Returns the settings of the training of a student after the first, apart from its initial model.

        Args:
            first: the settings of the first student's training.
            number: int. Number of the student, from 2.
        """
        config = first.replace(seed=first.seed + number - 1)
        if self.from_teacher:
            return config
        settings = TRAINED_BEFORE if self.preset == DistillationOptions.preset else {}
        pairs = self.translations if self.first_learns_one else 1
        return config.replace(
            **settings,
            epochs=first.epochs and FURTHER_SHARE * first.epochs / pairs,
            minutes=first.minutes and FURTHER_SHARE * first.minutes,
            updates=first.updates and math.ceil(FURTHER_SHARE * first.updates),
        )

    @property
    def first_learns_one(self) -> bool:
        """Whether the first student learns one translation of each sentence, and the others several."""
        return self.translations > 1 and self.students > 1 and not self.from_teacher


def check_teachers(model_dirs: Sequence[FilePath], options: DistillationOptions) -> None:
    """Checks that models can be the teachers of a distillation.

    Args:
        model_dirs: model directories of the teachers.
        options: DistillationOptions.

    Raises:
        ConfigurationError: a ValueError, with `replace_unknown` for models whose unknown words cannot be replaced.
        InputError: for a language model, a model of raw text, models that cannot form an ensemble, and with
            `from_teacher` for a reverse model.
    """
    teachers = [TrainedModel.read(path) for path in model_dirs]
    for teacher in teachers:
        check_has_source(teacher.has_source, teacher.path)
        if teacher.tokenization is not None:
            # Its translations are tokenized, and may contain the unknown word, which raw text does not contain.
            expected = "expected one of tokenized text, from whose tokens a student can learn"
            remedy = "tokenize the training text, and train the teacher on it without --tokenize"
            raise InputError("found a model of raw text, trained with --tokenize", expected, remedy, teacher.path)
    check_ensemble(teachers)
    if options.replace_unknown:
        has_attention = any(teacher.has_attention for teacher in teachers)
        check_can_replace_unknown(has_attention, teachers[0].has_position_words, teachers[0].spells_words)
    if options.from_teacher:
        check_direction(teachers[0], False, "--model_dir")


def check_student(config: TrainingConfig, preset: str) -> None:
    """Checks that the settings of a student's training are those of a model that can learn the translations.

    Args:
        config: TrainingConfig.
        preset: str. The preset. A preset in a file may also say how the text is read.

    Raises:
        ConfigurationError: a ValueError, for a language model, a model of the other direction, raw text or an encoding
            other than UTF-8, and for settings that differ from those of the model with whose weights the training
            begins.
        InputError: if that model cannot be read.
    """
    data = TrainingData.from_preset(preset)
    if not config.has_source:
        raise ConfigurationError(
            "found {preset}=%s with architecture=%s, which has no source, expected a model that translates",
            preset,
            config.architecture,
        )
    if data.reverse:
        raise ConfigurationError(
            "found reverse = true in {preset}=%s, expected a student of p(target | source); drop the line", preset
        )
    if data.tokenize:
        raise ConfigurationError(
            "found tokenize = true in {preset}=%s, expected a student of tokenized text, as the teachers write; drop "
            "the line",
            preset,
        )
    if not FileEncoding(data.encoding).is_utf8:
        raise ConfigurationError(
            "found encoding = %r in {preset}=%s, expected UTF-8; drop the line", data.encoding, preset
        )
    if config.initial_model:
        check_initial_model(config, data)


def check_bleu(config: TrainingConfig, options: DistillationOptions, texts: Mapping[str, FilePath | None]) -> None:
    """Checks, before the teachers translate, that sacrebleu is installed if a later stage measures BLEU.

    Args:
        config: TrainingConfig of the student.
        options: DistillationOptions.
        texts: see `check_test_sets`.

    Raises:
        ImportError: if it is missing.
    """
    if config.validation_bleu or options.keep == "closest" or texts["test_source"] is not None:
        check_extra("smt", "BLEU", "sacrebleu")


def check_test_sets(texts: Mapping[str, FilePath | None]) -> None:
    """Checks that each set of sentences to validate or to compare on has both sides or neither.

    Args:
        texts: dict from the names in `TEXTS` to paths; `None` for a file that is not given.

    Raises:
        ConfigurationError: a ValueError, for a side without the other.
    """
    for name in ("dev", "test"):
        source, target = f"{name}_source", f"{name}_target"
        if (texts[source] is None) != (texts[target] is None):
            raise ConfigurationError(f"found one of {{{source}}} and {{{target}}}, expected both or neither")
