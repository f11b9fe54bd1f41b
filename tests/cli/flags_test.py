"""Flags made from configurations, and what adding a hyper-parameter takes."""

import dataclasses
import json

import pytest
from absl import flags
from commands import fail
from in_process import in_process

from keras_encdec.cli.command import Command, flag_help
from keras_encdec.cli.flags import configuration_from_flags, define_configuration_flags, given_flags
from keras_encdec.configuration import Configuration, ConfigurationError, hyperparameter


@dataclasses.dataclass(frozen=True)
class Reading(Configuration):
    path: str | None = hyperparameter(None, "What is read.")
    words: int = hyperparameter(7, "Words.", minimum=1, maximum=9)
    share: float | None = hyperparameter(None, "Share.", above=0)
    order: str = hyperparameter("left", "Order.", choices=("left", "right"))
    widths: tuple[int, ...] = hyperparameter((4, 8), "Widths.", minimum=1)
    lower: bool = hyperparameter(False, "Lower case.")

    def check(self):
        if self.lower and self.path is None:
            raise ConfigurationError("found {lower} without {path}")


@dataclasses.dataclass(frozen=True)
class Writing(Configuration):
    words: int = hyperparameter(20, "Words.", minimum=1)


def parsed(*arguments, configurations=Reading):
    flag_values = flags.FlagValues()
    define_configuration_flags(flag_values, configurations, "reading")
    flag_values(["test", *arguments])
    return flag_values


def test_given_flags_override_the_base_and_the_base_overrides_defaults():
    flag_values = parsed("--widths=3,5", "--lower", "--path=a,b", "--share=2")
    assert given_flags(Reading, flag_values) == {"path": "a,b", "share": 2.0, "widths": (3, 5), "lower": True}
    expected = Reading(path="a,b", words=8, share=2.0, widths=(3, 5), lower=True)
    assert configuration_from_flags(Reading, flag_values, {"words": 8, "share": 0.5}) == expected
    assert configuration_from_flags(Reading, parsed()) == Reading()
    assert configuration_from_flags(Reading, parsed("--nolower", "--path=x"), {"lower": True}) == Reading(path="x")


@pytest.mark.parametrize(
    "argument, expected",
    [
        ("--words=0", "flag --words=0: expected a whole number, 1 to 9"),
        ("--words=2.5", "expected a whole number, 1 to 9"),
        ("--share=0", "expected a number, above 0"),
        ("--share=nan", "expected a number, above 0"),
        ("--order=up", "expected one of left, right"),
        ("--widths=1,x", "expected whole numbers in a list, 1 or more"),
        ("--lower=maybe", "lower"),
    ],
)
def test_the_error_for_a_value_says_which_values_are_allowed(argument, expected):
    with pytest.raises(flags.Error, match=expected):
        parsed(argument)


def test_an_error_names_the_flags_of_contradicting_values():
    names = {"path": "input"}
    command = Command(
        "encdec-read",
        lambda flag_values: define_configuration_flags(flag_values, Reading, "reading", names),
        lambda flag_values: print(configuration_from_flags(Reading, flag_values, flag_names=names)),
        flag_names=names,
    )
    fail(in_process(command, "--lower"), 2, "found --lower without --input. encdec-read --help lists the flags.")
    assert "path='x'" in in_process(command, "--lower", "--input=x").stdout


def test_help_has_bounds_choices_defaults_and_owners():
    text = flag_help(parsed(configurations={"reader": Reading, "writer": Writing}), "")
    assert "--words: Words. Default: 7 for reader, 20 for writer.\n    (a whole number, 1 to 9 or a whole" in text
    assert "--widths: For reader: Widths. Default: 4,8.\n    (whole numbers in a list, 1 or more)\n" in text
    assert "--[no]lower: For reader: Lower case. Default: false.\n" in text
    assert "--order: For reader: Order. Default: left.\n    (one of left, right)\n" in text


def test_a_shared_flag_takes_the_values_of_all_owners_and_each_owner_checks_its_own():
    flag_values = parsed("--words=15", configurations={"reader": Reading, "writer": Writing})
    assert configuration_from_flags(Writing, flag_values).words == 15
    with pytest.raises(ConfigurationError, match="found words=15, expected a whole number, 1 to 9"):
        configuration_from_flags(Reading, flag_values)


@pytest.fixture
def toy_architecture():
    """A model registered with one hyper-parameter more: one line in its configuration, and the code that uses it."""
    from toy_language_model import ToyLanguageModel

    from keras_encdec.architectures.architecture_registry import ARCHITECTURES
    from keras_encdec.models.translation_model import MODELS, register_model

    register_model("toy")(ToyLanguageModel)
    yield
    for registry in (MODELS, ARCHITECTURES):
        registry.unregister("toy")


def test_a_hyper_parameter_is_one_line_and_the_code_that_uses_it(toy_architecture, tmp_path):
    from keras_encdec.cli.train import COMMAND
    from keras_encdec.model_directory import load_model
    from keras_encdec.trainers import TrainingConfig

    text = in_process(COMMAND, "--help").stdout
    assert "--window: For toy: Words that are looked back at. Default: 3.\n    (a whole number, 1 or more)\n" in text
    (tmp_path / "my.toml").write_text('architecture = "toy"\n[model]\nwindow = 4\nunits = 8\nembedding_dim = 8\n')
    preset = f"--preset={tmp_path}/my.toml"
    config = TrainingConfig.from_preset(tmp_path / "my.toml", updates=1)
    assert (config.model.window, config.model.units) == (4, 8)
    (tmp_path / "bad.toml").write_text('architecture = "toy"\n[model]\nwindow = 0\n')
    common = f"--model_dir={tmp_path}/model", f"--target={tmp_path}/corpus", "--notensorboard"
    expected = "bad.toml: found window=0, expected a whole number, 1 or more"
    fail(in_process(COMMAND, f"--preset={tmp_path}/bad.toml", *common), 1, expected)
    fail(in_process(COMMAND, preset, "--window=0", *common), 2, "--window=0: expected a whole number, 1 or more")
    expected = "found --window with --architecture=encdec, expected it with --architecture=toy."
    fail(in_process(COMMAND, "--window=2", *common), 2, expected)

    (tmp_path / "corpus").write_text("a b\nb c d\nd\n" * 3)
    process = in_process(COMMAND, preset, *common, "--updates=2", "--jit_compile=false", "--pad_to=8")
    assert process.returncode == 0, process.stderr
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model"]["window"] == 4
    assert "window = 4" in (tmp_path / "model" / "settings.toml").read_text()
    process = in_process(COMMAND, preset, *common, "--resume", "--updates=4", "--window=5")
    fail(process, 2, "found --window=5, expected --window=4 as in the run to resume.")
    assert load_model(tmp_path / "model" / "best.keras").get_config()["window"] == 4
