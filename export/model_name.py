"""Which model of a server is meant."""

import dataclasses

from keras_encdec.configuration import ConfigurationError


@dataclasses.dataclass(frozen=True)
class ModelName:
    """The name of a served model and, for other than the latest, a version.

    Args:
        name: str.
        version: int. Optional; not together with a label.
        label: str. A label that the server gives to a version. Optional.

    Raises:
        ConfigurationError: a ValueError, for both.

    Example:

    >>> print(ModelName("encdec", version=3))
    model 'encdec', version 3
    """

    name: str
    version: int | None = None
    label: str | None = None

    def __post_init__(self) -> None:
        if self.version is not None and self.label is not None:
            raise ConfigurationError("found {version} and {label}, expected one of them")

    def __str__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        label = "" if self.label is None else f", label {self.label!r}"
        return f"model {self.name!r}{version}{label}"
