"""The samplers by name, those of this package among them."""

from keras_encdec.decoding.beam_sampler import BeamSampler
from keras_encdec.decoding.greedy_sampler import GreedySampler
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.sampler import Sampler
from keras_encdec.decoding.sampler_registry import RegisteredSampler, known_samplers, register_sampler

register_sampler("beam", BeamSampler, signature="generate", served_options={"num_beams": 5, "num_best": 5})
register_sampler("greedy", GreedySampler, signature="generate_greedy", single=True)
register_sampler(
    "sample",
    RandomSampler,
    served_options={"num_samples": 1},
    inputs={"seed": "int64", "temperature": "float32"},
    single=True,
)


def registered_samplers() -> dict[str, RegisteredSampler]:
    """The registered samplers by name, those of this package first."""
    return known_samplers()


def sampler_of(sampler: Sampler | str) -> Sampler:
    """The sampler itself, or the registered one of a name, with its usual options.

    Raises:
        ValueError: for anything else.
    """
    if isinstance(sampler, Sampler):
        return sampler
    samplers = registered_samplers()
    if isinstance(sampler, str) and sampler in samplers:
        return samplers[sampler].sampler_class()
    expected = f"a keras_encdec.decoding.Sampler or one of {', '.join(samplers)}"
    raise ValueError(f"found sampler={sampler!r}, expected {expected}")
