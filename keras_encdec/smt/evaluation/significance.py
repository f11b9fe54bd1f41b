"""Significance tests of the difference between two systems: paired bootstrap and approximate randomization."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_encdec.smt.evaluation.corpus_metric import Array

Scores = Callable[[Array], Array]

BOOTSTRAP_SAMPLES = 1000
RANDOMIZATION_TRIALS = 10_000
SEED = 12345  # sacrebleu's
_CELLS = 1 << 22  # maximum size of an array in memory
# Differences of scores, 0 to 100, that are equal but computed from different sums differ by less than this.
_ROUNDING = 1e-9


class BootstrapResult(NamedTuple):
    """The result of paired bootstrap resampling.

    Attributes:
        p_value: float, two-sided.
        interval: float. Half the width of the 95 % confidence interval of the system's score.
    """

    p_value: float
    interval: float


def bootstrap_scores(
    runs: Sequence[Array], scores: Scores, samples: int = BOOTSTRAP_SAMPLES, seed: int = SEED
) -> Array:
    """Scores the runs of a system on test sets whose sentences are drawn, with replacement, from one test set.

    The arguments are those of `paired_bootstrap`.

    Returns:
        float64 array `(samples,)`, the mean over the runs.
    """
    resamplings = _resamplings(np.random.default_rng(seed), samples, len(runs[0]))
    return np.concatenate([np.mean([scores(times @ counts) for counts in runs], axis=0) for times in resamplings])


def paired_bootstrap(
    system: Sequence[Array],
    baseline: Sequence[Array],
    scores: Scores,
    samples: int = BOOTSTRAP_SAMPLES,
    seed: int = SEED,
) -> BootstrapResult:
    """Tests by paired bootstrap resampling how often a difference as large as the observed one arises by chance.

    With one run of each system, this is the test of `sacrebleu --paired-bs` with one exception: a difference that
    equals the observed one counts as due to chance, as is usual. So the p-value of a system against itself is 1.

    Args:
        system, baseline: lists of arrays `(sentences, counts)`, one for each run, of the same sentences.
        scores: function of counts, see `CorpusMetric.scores`. The score of several runs is their mean.
        samples: int. Number of test sets drawn. Defaults to `1000`.
        seed: int. Defaults to `12345`.

    Raises:
        ValueError: for runs of different numbers of sentences.

    Reference:
        - Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation"
    """
    _check_sentences(system, baseline)
    drawn = bootstrap_scores(system, scores, samples, seed)
    differences = np.abs(drawn - bootstrap_scores(baseline, scores, samples, seed))
    observed = abs(_mean_score(system, scores) - _mean_score(baseline, scores))
    return BootstrapResult(_p_value(differences - differences.mean(), observed), confidence_interval(drawn))


def confidence_interval(drawn: Array) -> float:
    """Returns half the width of the interval that contains 95 % of the sampled scores."""
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
    """Tests by approximate randomization how often systems with randomly swapped hypotheses differ as much.

    For each sentence, the hypotheses from all runs of both systems are pooled and dealt out at random: each system
    gets one hypothesis per run. The score is that of all runs as one corpus. So the test accounts for the randomness of
    tuning. With one run of each system, this is the test of `sacrebleu --paired-ar`, with the exception named in
    `paired_bootstrap`.

    Args:
        system, baseline: lists of arrays `(sentences, counts)`, one for each run, of the same sentences.
        scores: function of counts, see `CorpusMetric.scores`.
        trials: int. Defaults to `10000`.
        seed: int. Defaults to `12345`.

    Returns:
        float. The p-value, two-sided.

    Raises:
        ValueError: for runs of different numbers of sentences.

    Reference:
        - Riezler and Maxwell, 2005, "On Some Pitfalls in Automatic Evaluation and Significance Testing for MT"
        - Clark et al., 2011, "Better Hypothesis Testing for Statistical Machine Translation: Controlling for Optimizer
          Instability"
    """
    _check_sentences(system, baseline)
    pool = [*baseline, *system]
    total = _sum(pool)
    differences = []
    rng = np.random.default_rng(seed)
    for rows in _row_blocks(trials, len(pool[0])):
        dealt = np.zeros_like(total)
        for mine, counts in zip(_dealt(rng, rows, len(pool[0]), len(baseline), len(pool)), pool, strict=True):
            dealt = dealt + mine @ counts
        differences.append(np.abs(scores(dealt) - scores(total - dealt)))
    observed = abs(scores(_sum(baseline)) - scores(_sum(system)))
    return _p_value(np.concatenate(differences), float(observed))


def _check_sentences(system: Sequence[Array], baseline: Sequence[Array]) -> None:
    numbers = [len(counts) for counts in (*system, *baseline)]
    if len({*numbers}) > 1:
        raise ValueError(f"found runs of {min(numbers)} and of {max(numbers)} sentences, expected the same sentences")


def _sum(runs: Sequence[Array]) -> Array:
    total: Array = np.sum([counts.sum(axis=0) for counts in runs], axis=0)
    return total


def _dealt(rng: np.random.Generator, rows: int, sentences: int, hands: int, pool: int) -> Iterator[Array]:
    """Yields for each run in the pool which hypotheses go to the baseline: float64 arrays `(rows, sentences)`."""
    if pool == 2:  # the same draws as in sacrebleu
        first = rng.integers(2, size=(rows, sentences), dtype=bool)
        yield first.astype(np.float64)
        yield (~first).astype(np.float64)
        return
    missing = np.full((rows, sentences), hands, np.float32)
    for left in range(pool, 0, -1):
        taken = rng.random((rows, sentences), dtype=np.float32) < missing / np.float32(left)
        missing -= taken
        yield taken.astype(np.float64)


def _resamplings(rng: np.random.Generator, samples: int, sentences: int) -> Iterator[Array]:
    """Yields how often each sentence is drawn: float64 arrays `(rows, sentences)`, with a row for each sample."""
    for rows in _row_blocks(samples, sentences):
        drawn = rng.choice(sentences, size=(rows, sentences), replace=True)
        indices = drawn + sentences * np.arange(rows)[:, None]
        yield np.bincount(indices.ravel(), minlength=rows * sentences).reshape(rows, sentences).astype(np.float64)


def _row_blocks(rows: int, sentences: int) -> list[int]:
    """Returns the sizes of blocks of rows.

    They are multiples of 32, as the generator draws 32 random bits at once and discards the rest of them at the end.
    """
    block = max(_CELLS // sentences // 32, 1) * 32
    return [min(block, rows - start) for start in range(0, rows, block)]


def _mean_score(runs: Sequence[Array], scores: Scores) -> float:
    return float(np.mean([scores(counts.sum(axis=0)) for counts in runs]))


def _p_value(differences: Array, observed: float) -> float:
    return (int((differences >= observed - _ROUNDING).sum()) + 1) / (len(differences) + 1)
