"""Table 3 of the paper: targets that the model draws by itself, without a phrase table."""

import dataclasses
from collections.abc import Sequence

from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.text_generator import TextGenerator, TextHypothesis
from keras_encdec.formats import surface


@dataclasses.dataclass(frozen=True)
class SampledTargets:
    """Samples of one source phrase.

    Attributes:
        source: str, as it was given.
        samples: int. How many were drawn.
        distinct: list of TextHypothesis, those of the highest ln p first, each with how often it was drawn.
    """

    source: str
    samples: int
    distinct: list[TextHypothesis]


def sampled_targets(
    generator: TextGenerator, sources: Sequence[str], samples: int = 50, seed: int = 0
) -> list[SampledTargets]:
    """Draws targets word by word from the model's probabilities.

    Args:
        generator: TextGenerator of the model.
        sources: list of str, source phrases as they stand in a table.
        samples: int. Samples of each phrase. Defaults to `50`, as in the paper.
        seed: int. Defaults to `0`.

    Returns:
        list of SampledTargets, in the order of the phrases.
    """
    drawn = generator.generate([surface(source) for source in sources], RandomSampler(samples, seed=seed))
    return [SampledTargets(source, samples, list(best)) for source, best in zip(sources, drawn, strict=True)]
