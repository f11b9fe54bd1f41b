"""Whether one system is better than another, or lucky: paired bootstrap and approximate randomization."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

Array = np.ndarray
Scores = Callable[[Array], Array]

BOOTSTRAP_SAMPLES = 1000
RANDOMIZATION_TRIALS = 10_000
SEED = 12345  # sacrebleu's
_CELLS = 1 << 22  # of the arrays in memory at a time


class BootstrapResult(NamedTuple):
    """What bootstrap resampling says of a system and a baseline.

    Attributes:
        p_value: float.
        interval: float. Half the width of the 95 % confidence interval of the system's score.
    """

    p_value: float
    interval: float


def bootstrap_scores(
    runs: Sequence[Array], scores: Scores, samples: int = BOOTSTRAP_SAMPLES, seed: int = SEED
) -> Array:
    """The scores of a system on test sets drawn, with replacement, from the sentences of one.

    Args:
        runs: list of arrays `(sentences, counts)`, one for each run of the system.
        scores: function of counts `(..., counts)`, see `CorpusMetric.scores`.
        samples: int. Test sets that are drawn. Defaults to `1000`.
        seed: int. Defaults to `12345`.

    Returns:
        float64 array `(samples,)`, the mean over the runs.
    """
    drawn = [np.zeros(0)]
    for times in _resamplings(np.random.default_rng(seed), samples, len(runs[0])):
        drawn.append(np.mean([scores(times @ counts) for counts in runs], axis=0))
    return np.concatenate(drawn)


def paired_bootstrap(
    system: Sequence[Array],
    baseline: Sequence[Array],
    scores: Scores,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = SEED,
) -> BootstrapResult:
    """Paired bootstrap resampling: are the differences on other test sets like this one that large by chance?

    With one run of each it is that of `sacrebleu --paired-bs`, but that a difference of exactly the observed size
    counts as one that chance has made, as is usual: a system has a p-value of 1 against itself.

    Args:
        system, baseline: lists of arrays `(sentences, counts)`, one for each run, of the same sentences.
        scores: function of counts, see `CorpusMetric.scores`. The score of several runs is their mean.
        samples: int. Test sets that are drawn. Defaults to `1000`.
        seed: int. Defaults to `12345`.

    Returns:
        BootstrapResult.

    Reference:
        - Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation"
    """
    drawn = bootstrap_scores(system, scores, samples, seed)
    differences = np.abs(drawn - bootstrap_scores(baseline, scores, samples, seed))
    observed = abs(_mean_score(system, scores) - _mean_score(baseline, scores))
    return BootstrapResult(_p_value(differences - differences.mean(), observed), confidence_interval(drawn))


def confidence_interval(drawn: Array) -> float:
    """Half the width of the interval that holds 95 % of the scores that were drawn."""
    drawn = np.sort(drawn)
    outside = len(drawn) // 40
    return float(drawn[len(drawn) - outside - 1] - drawn[outside]) / 2


def approximate_randomization(
    system: Sequence[Array],
    baseline: Sequence[Array],
    scores: Scores,
    trials: int = RANDOMIZATION_TRIALS,
    seed: int = SEED,
) -> float:
    """Approximate randomization: is the difference as large when it is drawn by lot whose hypotheses are whose?

    The hypotheses of a sentence from all runs of both systems are pooled and dealt out anew, as many to each system as
    it has runs; the score is that of all runs as one corpus. So what tuning does by chance is accounted for. With one
    run of each it is that of `sacrebleu --paired-ar`, with the exception that `paired_bootstrap` names.

    Args:
        system, baseline: lists of arrays `(sentences, counts)`, one for each run, of the same sentences.
        scores: function of counts, see `CorpusMetric.scores`.
        trials: int. Defaults to `10000`.
        seed: int. Defaults to `12345`.

    Returns:
        float. The p-value, two-sided.

    Reference:
        - Riezler and Maxwell, 2005, "On Some Pitfalls in Automatic Evaluation and Significance Testing for MT"
        - Clark et al., 2011, "Better Hypothesis Testing for Statistical Machine Translation: Controlling for Optimizer
          Instability"
    """
    pool = [*baseline, *system]
    total = sum(counts.sum(axis=0) for counts in pool)
    differences = []
    rng = np.random.default_rng(seed)
    for rows in _row_blocks(trials, len(pool[0])):
        dealt = sum(
            mine @ counts
            for mine, counts in zip(_dealt(rng, rows, len(pool[0]), len(baseline), len(pool)), pool, strict=True)
        )
        differences.append(np.abs(scores(dealt) - scores(total - dealt)))
    observed = abs(scores(sum(one.sum(axis=0) for one in baseline)) - scores(sum(one.sum(axis=0) for one in system)))
    return _p_value(np.concatenate(differences), float(observed))


def _dealt(rng, rows, sentences, hands, pool) -> Iterator[Array]:
    """Of each hypothesis in the pool, whether it goes to the baseline: float64 arrays `(rows, sentences)`."""
    if pool == 2:  # sacrebleu's draws
        first = rng.integers(2, size=(rows, sentences), dtype=bool)
        yield first.astype(np.float64)
        yield (~first).astype(np.float64)
        return
    missing = np.full((rows, sentences), hands, np.float32)
    for left in range(pool, 0, -1):
        taken = rng.random((rows, sentences), dtype=np.float32) < missing / np.float32(left)
        missing -= taken
        yield taken.astype(np.float64)


def _resamplings(rng, samples, sentences) -> Iterator[Array]:
    """How often each sentence is drawn: float64 arrays `(rows, sentences)`, of all samples together."""
    for rows in _row_blocks(samples, sentences):
        drawn = rng.choice(sentences, size=(rows, sentences), replace=True)
        places = drawn + sentences * np.arange(rows)[:, None]
        yield np.bincount(places.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def _row_blocks(rows, sentences):
    """Sizes of blocks; multiples of 32, because random bits are drawn by 32 and the rest of a block is thrown away."""
    block = max(_CELLS // sentences // 32, 1) * 32
    return [min(block, rows - start) for start in range(0, rows, block)]


def _mean_score(runs, scores):
    return float(np.mean([scores(counts.sum(axis=0)) for counts in runs]))


def _p_value(differences, observed):
    return (int((differences >= observed).sum()) + 1) / (len(differences) + 1)
