"""The registry of samplers by name."""

import dataclasses
import operator
from collections.abc import Mapping

from keras_encdec.decoding.beam_sampler import BeamSampler, GreedySampler
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.registry import Registry


@dataclasses.dataclass(frozen=True)
class RegisteredSampler:
    """A sampler that commands offer and exported models serve.

    Attributes:
        name: str. Name of the sampler in commands.
        sampler_class: the subclass of `Sampler`.
        signature: str. Name of the exported model's signature that serves the sampler.
        served_options: dict from option to value: options of the served sampler that differ from the sampler's own
            defaults.
        inputs: dict from name to dtype: the signature's inputs other than the source, one value per source. "seed", an
            int64, seeds the sampler's random numbers; all others are arguments of the sampler's `initial`.
        single: bool. Whether the signature returns one target per source, in a vector, instead of several.
    """

    name: str
    sampler_class: type[Sampler]
    signature: str
    served_options: Mapping[str, object]
    inputs: Mapping[str, str]
    single: bool

    def served_sampler(self, **options: object) -> Sampler:
        """Makes the sampler of the signature; the given options override `served_options`."""
        return self.sampler_class.from_dict({**self.served_options, **options})


SAMPLERS: Registry[RegisteredSampler] = Registry("sampler", defined_by=operator.attrgetter("sampler_class"))


def register_sampler(
    name: str,
    sampler_class: type[Sampler],
    *,
    signature: str | None = None,
    served_options: Mapping[str, object] | None = None,
    inputs: Mapping[str, str] | None = None,
    single: bool = False,
) -> None:
    """Makes a sampler available by name: to `Generator.generate`, to commands and in exported models.

    Args:
        name: str.
        sampler_class: a subclass of `Sampler`.
        signature, served_options, inputs, single: see `RegisteredSampler`. By default the signature has the sampler's
            name, the sampler's default options, no inputs other than the source, and several targets per source.

    Raises:
        ValueError: if another sampler has the name or the signature, for an object that is not a subclass of `Sampler`,
            and for a sampler that needs random numbers without an input "seed".
    """
    SAMPLERS.check_subclass(sampler_class, Sampler)
    entry = RegisteredSampler(
        name, sampler_class, signature or name, dict(served_options or {}), dict(inputs or {}), single
    )
    for other in SAMPLERS.values():
        if other.name != name and {other.name, other.signature} & {entry.name, entry.signature}:
            raise ValueError(
                f"found the sampler {name!r}, expected another name and signature than those of {other.name!r}"
            )
    if sampler_class.needs_draws and "seed" not in entry.inputs:
        raise ValueError(f'found the inputs {[*entry.inputs]} of the sampler {name!r}, expected "seed" among them')
    SAMPLERS.register(name, entry)


def registered_samplers() -> dict[str, RegisteredSampler]:
    """Returns the registered samplers by name, those of this package first."""
    return dict(SAMPLERS)


def sampler_of(sampler: Sampler | str) -> Sampler:
    """Returns a sampler itself, or makes the registered sampler of a name, with its default options.

    Raises:
        ValueError: for an unknown name, and for objects of other types.
    """
    if isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, str) and sampler in SAMPLERS:
        return SAMPLERS[sampler].sampler_class()
    expected = f"a keras_encdec.decoding.Sampler or one of {', '.join(SAMPLERS)}"
    raise ValueError(f"found sampler={sampler!r}, expected {expected}")


register_sampler("beam", BeamSampler, signature="generate", served_options={"num_beams": 5, "num_best": 5})
register_sampler("greedy", GreedySampler, signature="generate_greedy", single=True)
register_sampler(
    "sample",
    RandomSampler,
    served_options={"num_samples": 1},
    inputs={"seed": "int64", "temperature": "float32"},
    single=True,
)
