"""The samplers by name, those of this package among them."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_encdec.decoding.beam_sampler import BeamSampler
from keras_encdec.decoding.greedy_sampler import GreedySampler
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.registry import Registry


@dataclasses.dataclass(frozen=True)
class RegisteredSampler:
    """A sampler that commands offer and exported models serve.

    Attributes:
        name: str. Commands offer it by this name.
        sampler_class: the subclass of `Sampler`.
        signature: str. Name of the signature of an exported model that serves it.
        served_options: dict of option to value: what is served where no other is given. An option that is not
            among them has its usual default.
        inputs: dict of name to dtype: what each request gives for each source, beside the source. "seed", an int64,
            is what a sampler's random numbers are made from; others are arguments of the sampler's `initial`.
        single: bool. Whether the signature gives one target a source, in a vector, and not several.
    """

    name: str
    sampler_class: type[Sampler]
    signature: str
    served_options: Mapping[str, Any]
    inputs: Mapping[str, str]
    single: bool

    def served_sampler(self, **options: Any) -> Sampler:
        """The sampler of the signature, with the given options over `served_options`."""
        return self.sampler_class.from_dict({**self.served_options, **options})


_SAMPLERS: Registry[RegisteredSampler] = Registry("sampler")


def register_sampler(
    name: str,
    sampler_class: type[Sampler],
    *,
    signature: str | None = None,
    served_options: Mapping[str, Any] | None = None,
    inputs: Mapping[str, str] | None = None,
    single: bool = False,
) -> None:
    """Makes a sampler available by name: to `Generator.generate`, to commands and in exported models.

    Args:
        name: str.
        sampler_class: a subclass of `Sampler`.
        signature, served_options, inputs, single: see `RegisteredSampler`. Defaults: a signature of the sampler's
            name, the usual options, no inputs beside the source, and several targets a source.

    Raises:
        ValueError: when another sampler has the name or the signature, or a sampler that needs random numbers has no
            input "seed".
    """
    entry = RegisteredSampler(
        name, sampler_class, signature or name, dict(served_options or {}), dict(inputs or {}), single
    )
    for other in _SAMPLERS.values():
        if {other.name, other.signature} & {entry.name, entry.signature}:
            raise ValueError(f"found the sampler {name!r}, expected another name and signature than {other.name!r} has")
    if sampler_class.needs_draws and "seed" not in entry.inputs:
        raise ValueError(f"found the inputs {[*entry.inputs]} of the sampler {name!r}, expected a seed among them")
    _SAMPLERS.register(name, entry)


def unregister_sampler(name: str) -> None:
    """Removes a sampler from the registry.

    Raises:
        KeyError: when no sampler has the name.
    """
    _SAMPLERS.unregister(name)


def registered_samplers() -> dict[str, RegisteredSampler]:
    """The registered samplers by name, in the order of their registration: first those of this package."""
    return dict(_SAMPLERS)


register_sampler("beam", BeamSampler, signature="generate", served_options={"num_beams": 5, "num_best": 5})
register_sampler("greedy", GreedySampler, signature="generate_greedy", single=True)
register_sampler(
    "sample",
    RandomSampler,
    served_options={"num_samples": 1},
    inputs={"seed": "int64", "temperature": "float32"},
    single=True,
)


def sampler_of(sampler: Sampler | str) -> Sampler:
    """The sampler itself, or the registered one of a name, with its usual options.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, str) and sampler in _SAMPLERS:
        return _SAMPLERS[sampler].sampler_class()
    expected = f"a keras_encdec.decoding.Sampler or one of {', '.join(_SAMPLERS)}"
    raise ValueError(f"found sampler={sampler!r}, expected {expected}")
