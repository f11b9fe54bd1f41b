"""Table 2 of the paper from a phrase table as it is: the model scores the targets that the table has."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_encdec.analysis.table_sample import Preferences, TablePair, plain_text
from keras_encdec.decoding.random_sampler import RandomSampler
from keras_encdec.decoding.text_generator import TextGenerator, TextHypothesis
from keras_encdec.formats import surface
from keras_encdec.scoring.pair_scorer import WordPair
from keras_encdec.scoring.text_scorer import TextScorer


def best_targets(scorer: TextScorer, phrases: Sequence[Sequence[TablePair]]) -> list[Preferences]:
    """Scores all targets of source phrases.

    Args:
        scorer: TextScorer of the model.
        phrases: list of lists of TablePair, all lines of a source each, see `TableSample.choose_phrases`.

    Returns:
        list of Preferences, whose `by_table` and `by_model` are the columns of Table 2; both probabilities of an
        option are p(target | source).
    """
    pairs = [pair for lines in phrases for pair in lines]
    log_probs = iter(scorer.score(pair_words(scorer, pairs)))
    return [
        Preferences(
            plain_text(lines[0].source),
            [(plain_text(pair.target), pair.probability, float(np.exp(next(log_probs)))) for pair in lines],
            lines[0].occurrences,
        )
        for lines in phrases
    ]


def pair_words(scorer: TextScorer, pairs: Sequence[TablePair]) -> list[WordPair]:
    """Lines of a table as the model reads them: list of pairs of lists of str."""
    return scorer.all_words([(pair.source, pair.target) for pair in pairs], factored=True)


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
