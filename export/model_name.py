"""Which model of a server is meant."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class ModelName:
    """The name of a served model and, for other than the latest, a version.

    Args:
        name: str.
        version: int. Optional; not together with a label.
        label: str. A label that the server gives to a version. Optional.

    Example:

    >>> print(ModelName("encdec", version=3))
    model 'encdec', version 3
    """

    name: str
    version: int | None = None
    label: str | None = None

    def __str__(self):
        version = "" if self.version is None else f", version {self.version}"
        label = "" if self.label is None else f", label {self.label!r}"
        return f"model {self.name!r}{version}{label}"
