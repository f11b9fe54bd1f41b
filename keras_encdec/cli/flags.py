"""Flags made from the hyper-parameters of configurations, and flags that several commands share."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

from keras_encdec.cli.command import UsageError
from keras_encdec.cli.process import say
from keras_encdec.configuration import Configuration, Hyperparameter
from keras_encdec.task_options import shared_option_names


class Repeated(str):
    """Help of an argument whose flag may be given several times. Its value is a list, empty without the flag."""


TEXT = {
    "source": "Source sentences, one per line; needs --target.",
    "target": "Target sentences, aligned line by line with the source.",
    "tsv": "Instead of --source and --target: lines of source, tab, target; further columns are ignored.",
}
ALIGNMENT = {
    "alignment": "Word alignment of the pairs: lines of links such as 0-0 1-2, from source word to target word. "
    "Default: the pairs are aligned by sil-thot."
}
OUTPUT = {
    "output": "File to write; gzipped if its name ends in .gz. It appears when it is complete. - means standard output."
}
WEIGHTS = {
    "weights": 'moses.ini, or a file of lines "Name= w [w ...]".',
    "weight": Repeated("Name=w, the weight of a feature; overrides --weights. May be given several times."),
}


def with_text_input(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces the values of the flags in `TEXT` with the arguments by which a task takes parallel text.

    Args:
        arguments: dict from argument to value, including all flags in `TEXT`; `None` for a flag that is not given.

    Returns:
        dict with "input", "format" and "source" in their place. "source" is `None` unless the text is in two files.

    Raises:
        UsageError: if the flags name no text, or more than one.
    """
    given = [name for name in TEXT if arguments[name]]
    if given not in (["source", "target"], ["tsv"]):
        found = " and ".join(f"--{name}" for name in given) or "no text"
        raise UsageError(f"found {found}, expected --source with --target, or --tsv.")
    others = {name: value for name, value in arguments.items() if name not in TEXT}
    file_format = "tsv" if given == ["tsv"] else "parallel"
    return {**others, "input": arguments[given[-1]], "format": file_format, "source": arguments["source"] or None}


def parsed_weights(texts: Sequence[str]) -> dict[str, list[float]]:
    """Returns the weights given by --weight, such as LM0=0.5, by feature. If one is given twice, the last counts.

    Raises:
        UsageError: for a value that is not of the form Name=w.
    """
    from keras_encdec.formats import parse_weights

    try:
        return dict(parse_weights(text) for text in texts)
    except ValueError as error:
        raise UsageError(f"--weight: {error}.") from None


def warn_of_missing(missing: int, consequence: str) -> None:
    """Warns on standard error of sentences without hypotheses, if there are any, and says what happened to them."""
    if missing:
        from keras_encdec.runtime.progress import counted

        gap = f"{counted(missing, 'sentences')} without hypotheses, {consequence}"
        say(f"{gap}; check that the ids in the list number its sentences from 0.")


def define_progress_flags(flag_values: flags.FlagValues, serves: bool = False) -> None:
    """Defines the flags with which a long command records and serves its progress, see `Command`.

    A command that serves requests has no progress to record.
    """
    section = "progress"
    if not serves:
        text = (
            "File for the state of the work as JSON: done, total, rate, time left, errors. It stays when the work ends."
        )
        flags.DEFINE_string("progress_file", None, text, flag_values, module_name=section)
    flags.DEFINE_integer(
        "metrics_port",
        None,
        "Serve metrics for Prometheus on this port, on all addresses of the machine; 0 for any free port.",
        lower_bound=0,
        upper_bound=65535,
        flag_values=flag_values,
        module_name=section,
    )


ConfigurationType = TypeVar("ConfigurationType", bound=Configuration)


def define_configuration_flags(
    flag_values: flags.FlagValues,
    configurations: type[Configuration] | Mapping[str, type[Configuration]],
    section: str,
    flag_names: Mapping[str, str] | None = None,
    own_flags: Collection[str] = (),
    repeated: Collection[str] = (),
) -> None:
    """Defines a flag for each hyper-parameter, with its type, bounds, choices, help and default.

    The value of a flag that is not given is `None`; its help shows the default of the configuration. Options that
    several tasks share (see `task_options`) come after the task's own.

    Args:
        flag_values: defines the flags here.
        configurations: a configuration class, or a dict of classes, each by the name of what it configures ("encdec").
            If several have a hyper-parameter, it is one flag, and its help names them and their defaults.
        section: str. Heading in `--help` of the flags whose hyper-parameters name no group.
        flag_names: dict from hyper-parameter to the name of its flag, if they differ. Optional.
        own_flags: names of hyper-parameters whose flags the command defines itself. Defaults to none.
        repeated: names of tuples of text whose flags are given once for each item. Defaults to none.

    Raises:
        ValueError: if hyper-parameters with the same name have different types.
    """
    if not isinstance(configurations, Mapping):
        configurations = {"": configurations}
    declared: dict[str, dict[str, Hyperparameter]] = {}
    for owner, config_class in configurations.items():
        shared = shared_option_names(config_class)
        for parameter in sorted(config_class.hyperparameters(), key=lambda parameter: parameter.name in shared):
            if parameter.name in own_flags:
                continue
            declared.setdefault(parameter.name, {})[owner] = parameter
    for name, parameters in declared.items():
        kinds = {(parameter.type, parameter.item_type) for parameter in parameters.values()}
        if len(kinds) > 1:
            raise ValueError(
                f"found the hyper-parameter {name} with several types, in {', '.join(parameters)}; expected one"
            )
        parser = _HyperparameterParser(tuple(parameters.values()))
        flag_name, help_text = (flag_names or {}).get(name, name), _help(parameters, len(configurations))
        if name in repeated:
            flag = text_flag(flag_name, help_text, repeated=True)
        elif parser.parameter.type is bool:
            flag = flags.BooleanFlag(flag_name, None, help_text)
        else:
            flag = flags.Flag(parser, None, flag_name, None, help_text)
        flags.DEFINE_flag(flag, flag_values, module_name=parser.parameter.group or section)


def text_flag(name: str, help: str, repeated: bool) -> flags.Flag:
    """Makes a flag whose value is text, or with `repeated` a list of text; `None` if it is not given."""
    flag = (flags.MultiFlag if repeated else flags.Flag)(flags.ArgumentParser(), None, name, None, help)
    flag.help = help  # absl adds a sentence to the help of a MultiFlag
    return flag


def configuration_from_flags(
    config_class: type[ConfigurationType],
    flag_values: flags.FlagValues,
    base: Mapping[str, object] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> ConfigurationType:
    """Makes a configuration from the given flags, then from other values, then from the defaults.

    Args:
        config_class: class of the configuration, whose flags `define_configuration_flags` defined.
        flag_values: the parsed flags.
        base: dict. Values for the flags that are not given, such as a preset's. Optional.
        flag_names: see `define_configuration_flags`. Optional.

    Raises:
        ConfigurationError: a ValueError, if values are out of bounds or contradict one another. A `Command` reports it
            with the names of the flags.
    """
    return config_class.from_dict({**(base or {}), **given_flags(config_class, flag_values, flag_names)})


def given_flags(
    config_class: type[Configuration], flag_values: flags.FlagValues, flag_names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns the values of the given flags, by hyper-parameter. Not all hyper-parameters need to have flags."""
    given = {}
    for parameter in config_class.hyperparameters():
        flag = (flag_names or {}).get(parameter.name, parameter.name)
        if flag in flag_values and flag_values[flag].value is not None:
            given[parameter.name] = flag_values[flag].value
    return given


def check_flags_of_choice(
    switch: str,
    chosen: str,
    configurations: Mapping[str, type[Configuration]],
    flag_values: flags.FlagValues,
    flag_names: Mapping[str, str] | None = None,
) -> None:
    """Checks that all given flags belong to the chosen configuration.

    Args:
        switch: str. Name of the flag that chooses the configuration, such as "mode".
        chosen: str. Its value, such as "beam".
        configurations: dict from each value of that flag to its configuration class.
        flag_values: the parsed flags.
        flag_names: see `define_configuration_flags`. Optional.

    Raises:
        UsageError: for a flag of another configuration, as in "found --seed with --mode=beam, expected it with
            --mode=sample."
    """
    own = {parameter.name for parameter in configurations[chosen].hyperparameters()}
    given = {name: given_flags(kind, flag_values, flag_names) for name, kind in configurations.items()}
    for name in dict.fromkeys(name for values in given.values() for name in values):
        if name not in own:
            owners = " or ".join(f"--{switch}={owner}" for owner, values in given.items() if name in values)
            flag = (flag_names or {}).get(name, name)
            raise UsageError(f"found --{flag} with --{switch}={chosen}, expected it with {owners}.")


class _HyperparameterParser(flags.ArgumentParser):
    """Parses a hyper-parameter's value: any value that one of its declarations, all of one type, allows."""

    def __init__(self, parameters: tuple[Hyperparameter, ...]) -> None:
        super().__init__()
        self._parameters = parameters
        self.parameter = parameters[0]
        self.syntactic_help = "" if self.parameter.type is str and not self.parameter.choices else self._expectation

    @property
    def _expectation(self) -> str:
        return " or ".join(dict.fromkeys(parameter.expectation for parameter in self._parameters))

    def parse(self, argument: str) -> object:
        for parameter in self._parameters:
            try:
                return parameter.check(_value(argument, parameter))
            except ValueError:
                continue
        raise ValueError(f"expected {self._expectation}")

    def flag_type(self) -> str:
        return self.parameter.type.__name__


def _value(text: str, parameter: Hyperparameter) -> object:
    if parameter.type is tuple:
        return tuple(parameter.item_type(item) for item in text.split(",")) if text else ()
    return parameter.type(text)


def _help(parameters: Mapping[str, Hyperparameter], configurations: int) -> str:
    """Returns the help of a flag: that of its first declaration, its defaults, and its owners unless all have it."""
    first = next(iter(parameters.values()))
    owners = "" if len(parameters) == configurations else f"For {', '.join(parameters)}: "
    defaults = {owner: _shown(parameter.default) for owner, parameter in parameters.items()}
    if len(set(defaults.values())) == 1:
        default = defaults[next(iter(defaults))]
    else:
        default = ", ".join(f"{value} for {owner}" for owner, value in defaults.items())
    return f"{owners}{first.help}" + (f" Default: {default}." if default else "")


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
