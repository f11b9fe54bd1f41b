"""Flags made from the hyper-parameters of configurations, and configurations from flags."""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from absl import flags

from keras_encdec.cli.command import UsageError
from keras_encdec.configuration import Configuration, ConfigurationError, Hyperparameter

ConfigurationType = TypeVar("ConfigurationType", bound=Configuration)


def define_configuration_flags(
    flag_values: flags.FlagValues,
    configurations: type[Configuration] | Mapping[str, type[Configuration]],
    section: str,
    flag_names: Mapping[str, str] | None = None,
    own_flags: Collection[str] = (),
) -> None:
    """Defines a flag for each hyper-parameter, with its type, bounds, choices, help and default.

    A flag's value is `None` where it is not given: the default in its help is that of the configuration.

    Args:
        flag_values: where the flags are defined.
        configurations: a configuration class, or several by the name of what they configure ("encdec"). Flags of
            one name in several are one, whose help says to which it belongs, and the default of each.
        section: str. Heading of the flags in `--help`.
        flag_names: dict of hyper-parameter to the name of its flag, where that is another. Optional.
        own_flags: names of hyper-parameters whose flags the command defines itself. Defaults to none.

    Raises:
        ValueError: where hyper-parameters of one name have different types.
    """
    if not isinstance(configurations, Mapping):
        configurations = {"": configurations}
    declared: dict[str, dict[str, Hyperparameter]] = {}
    for owner, config_class in configurations.items():
        for parameter in config_class.hyperparameters():
            if parameter.name in own_flags:
                continue
            declared.setdefault(parameter.name, {})[owner] = parameter
    for name, parameters in declared.items():
        kinds = {(parameter.type, parameter.item_type) for parameter in parameters.values()}
        if len(kinds) > 1:
            raise ValueError(f"found the hyper-parameter {name} of several types: {', '.join(parameters)}")
        parser = _HyperparameterParser(tuple(parameters.values()))
        kind = flags.BooleanFlag if parser.parameter.type is bool else flags.Flag
        arguments = ((flag_names or {}).get(name, name), None, _help(parameters, configurations))
        flag = kind(*arguments) if kind is flags.BooleanFlag else kind(parser, None, *arguments)
        flags.DEFINE_flag(flag, flag_values, module_name=section)


def configuration_from_flags(
    config_class: type[ConfigurationType],
    flag_values: flags.FlagValues,
    base: Mapping[str, Any] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> ConfigurationType:
    """A configuration of the flags that were given, over other values, over the defaults.

    Args:
        config_class: the class, whose flags `define_configuration_flags` defined.
        flag_values: the parsed flags.
        base: dict. Values that flags override, a preset's. Optional.
        flag_names: see `define_configuration_flags`. Optional.

    Raises:
        UsageError: where values are out of bounds or contradict, with the flags' names.
    """
    try:
        return config_class.from_dict({**(base or {}), **given_flags(config_class, flag_values, flag_names)})
    except ConfigurationError as error:
        raise UsageError(error.sentence(lambda name: f"--{(flag_names or {}).get(name, name)}") + ".") from None


def given_flags(
    config_class: type[Configuration], flag_values: flags.FlagValues, flag_names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The values of the configuration's flags that were given, by name; a flag that is not defined is not given."""
    own = [parameter.name for parameter in config_class.hyperparameters()]
    names = {name: (flag_names or {}).get(name, name) for name in own}
    given = {name: flag_values[flag].value for name, flag in names.items() if flag in flag_values}
    return {name: value for name, value in given.items() if value is not None}


def check_flags_of_choice(
    switch: str,
    chosen: str,
    configurations: Mapping[str, type[Configuration]],
    flag_values: flags.FlagValues,
    flag_names: Mapping[str, str] | None = None,
) -> None:
    """Checks that no flag is given that belongs to other configurations than the chosen one.

    Args:
        switch: str. Name of the flag that chooses the configuration, such as "mode".
        chosen: str. Its value, such as "beam".
        configurations: dict of each value of that flag to its configuration class.
        flag_values: the parsed flags.
        flag_names: see `define_configuration_flags`. Optional.

    Raises:
        UsageError: for such a flag: "found --seed with --mode=beam, expected it with --mode=sample."
    """
    own = {parameter.name for parameter in configurations[chosen].hyperparameters()}
    given = {name: given_flags(kind, flag_values, flag_names) for name, kind in configurations.items()}
    for name in dict.fromkeys(name for values in given.values() for name in values):
        if name not in own:
            owners = " or ".join(f"--{switch}={owner}" for owner, values in given.items() if name in values)
            flag = (flag_names or {}).get(name, name)
            raise UsageError(f"found --{flag} with --{switch}={chosen}, expected it with {owners}.")


class _HyperparameterParser(flags.ArgumentParser):
    """Reads a hyper-parameter's value; the first of several declarations that takes it will do."""

    def __init__(self, parameters) -> None:
        super().__init__()
        self._parameters = parameters
        self.parameter = parameters[0]
        self.syntactic_help = "" if self.parameter.type is str and not self.parameter.choices else self._expectation

    @property
    def _expectation(self):
        return " or ".join(dict.fromkeys(parameter.expectation for parameter in self._parameters))

    def parse(self, argument):
        for parameter in self._parameters:
            try:
                return parameter.check(_value(argument, parameter))
            except ValueError:
                continue
        raise ValueError(f"expected {self._expectation}")

    def flag_type(self):
        return self.parameter.type.__name__


def _value(text, parameter):
    if parameter.type is tuple:
        return tuple(parameter.item_type(item) for item in text.split(",")) if text else ()
    return parameter.type(text)


def _help(parameters, configurations):
    """The help of the first, its owners where not all have it, and the default of each."""
    first = next(iter(parameters.values()))
    owners = "" if len(parameters) == len(configurations) else f"Of {', '.join(parameters)}: "
    defaults = {owner: _shown(parameter.default) for owner, parameter in parameters.items()}
    if len(set(defaults.values())) == 1:
        default = defaults[next(iter(defaults))]
    else:
        default = ", ".join(f"{value} of {owner}" for owner, value in defaults.items())
    return f"{owners}{first.help}" + (f" Default: {default}." if default else "")


def _shown(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
